/*
 * Patterns that select probes, like those of Go's path.Match, except that the slash is an ordinary
 * character.
 */
#include "recorder.h"

/* The part of a pattern that is not matched yet. */
struct glob {
	const unsigned char *at, *end;
};

/*
 * step_over returns the address after a character, which in UTF-8 may have several bytes.
 */
static const char *step_over(const char *name)
{
	for (name++; (*name & 0xc0) == 0x80; name++)
		;
	return name;
}

/*
 * take_character takes a character of a class, which may be escaped. It reports false at the end.
 */
static bool take_character(struct glob *glob, unsigned char *character)
{
	if (glob->at < glob->end && *glob->at == '\\')
		glob->at++;
	if (glob->at == glob->end)
		return false;
	*character = *glob->at++;
	return true;
}

/*
 * match_class matches a character with a class, whose `[` was taken, and takes the class. *valid is
 * false if the class has no end.
 */
static bool match_class(struct glob *glob, unsigned char character, bool *valid)
{
	bool negated = glob->at < glob->end && *glob->at == '^', found = false;
	unsigned char low, high;
	int ranges = 0;

	glob->at += negated;
	for (;; ranges++) {
		if (ranges > 0 && glob->at < glob->end && *glob->at == ']') {
			glob->at++;
			return found != negated;
		}
		if (!take_character(glob, &low))
			break;
		high = low;
		if (glob->at < glob->end && *glob->at == '-') {
			glob->at++;
			if (!take_character(glob, &high))
				break;
		}
		found |= low <= character && character <= high;
	}
	*valid = false;
	return false;
}

/*
 * match_one matches the first character of a name with a part of the pattern that is not
 * a star.
 */
static bool match_one(struct glob *glob, const char **name, bool *valid)
{
	unsigned char character = (unsigned char)**name, wanted;

	switch (*glob->at) {
	case '?':
		glob->at++;
		*name = step_over(*name);
		return true;
	case '[':
		glob->at++;
		*name = step_over(*name);
		return match_class(glob, character, valid);
	default:
		if (!take_character(glob, &wanted)) {
			*valid = false;
			return false;
		}
		++*name;
		return wanted == character;
	}
}

/*
 * If the rest does not match, the last star matches one character more. Earlier stars need not be
 * retried, so this takes at most n*m steps.
 */
static bool match_name(struct glob glob, const char *name)
{
	struct glob after_star = {NULL, NULL};
	const char *retry = NULL;
	bool valid = true;

	for (;;) {
		if (glob.at < glob.end && *glob.at == '*') {
			glob.at++;
			after_star = glob;
			retry = name;
			continue;
		}
		if (!*name && glob.at == glob.end)
			return true;
		if (*name && glob.at < glob.end && match_one(&glob, &name, &valid))
			continue;
		if (!valid || !retry || !*retry)
			return false;
		retry = step_over(retry);
		name = retry;
		glob = after_star;
	}
}

/*
 * sdt_patterns_select reports whether one of the patterns, which are well-formed, selects a probe.
 */
bool sdt_patterns_select(const struct sdt_patterns *patterns, const char *provider,
			 const char *probe)
{
	const unsigned char *at = patterns->bytes;

	for (uint32_t i = 0; i < patterns->count; i++) {
		size_t first = sdt_get_u16(at), second = sdt_get_u16(at + 2);

		at += 4;
		if (match_name((struct glob){at, at + first}, provider) &&
		    match_name((struct glob){at + first, at + first + second}, probe))
			return true;
		at += first + second;
	}
	return false;
}
