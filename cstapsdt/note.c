/* .note.stapsdt: what a tracer reads of each trace point. All of it is little-endian bytes. */
#include "private.h"

#include <string.h>

#define OWNER "stapsdt"
#define TYPE 3
#define HEADER (12 + sizeof OWNER)
#define WORDS 24 /* location, base, semaphore */

static size_t padding(size_t size)
{
	return -size & 3;
}

/* arguments writes "8@%rdi -4@%rsi", and the NUL; out has room for it. */
static size_t arguments(char *out, const struct sdt_operands *operands,
			const struct sdt_probe *probe)
{
	char *start = out;

	for (int i = 0; i < probe->list.probe.argCount; i++) {
		int type = (int)probe->types[i];

		if (i > 0)
			*out++ = ' ';
		if (type < 0)
			*out++ = '-';
		*out++ = (char)('0' + (type < 0 ? -type : type));
		*out++ = '@';
		memcpy(out, operands->text[i], operands->size[i]);
		out += operands->size[i];
	}
	*out++ = '\0';
	return (size_t)(out - start);
}

void sdt_note_add(struct sdt_buffer *notes, const struct sdt_operands *operands,
		  const struct sdt_provider *provider, const struct sdt_probe *probe)
{
	char args[SDT_MAX_ARGUMENTS * (4 + sizeof operands->text[0])];
	size_t args_size = arguments(args, operands, probe), size;
	unsigned char *note;

	if (__builtin_add_overflow(WORDS + args_size, provider->name_size, &size) ||
	    __builtin_add_overflow(size, probe->name_size, &size) || size > UINT32_MAX / 2) {
		notes->failed = true;
		return;
	}
	note = sdt_buffer_extend(notes, HEADER + size + padding(size));
	if (!note)
		return;
	sdt_put32(note, sizeof OWNER);
	sdt_put32(note + 4, (uint32_t)size);
	sdt_put32(note + 8, TYPE);
	memcpy(note + 12, OWNER, sizeof OWNER);
	note += HEADER;
	memset(note, 0, WORDS);
	note += WORDS;
	memcpy(note, provider->name, provider->name_size);
	note += provider->name_size;
	memcpy(note, probe->name, probe->name_size);
	note += probe->name_size;
	memcpy(note, args, args_size);
	memset(note + args_size, 0, padding(size));
}

static uint32_t get32(const unsigned char *in)
{
	return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* sdt_notes_place writes the addresses, which are known once the sections are laid out. */
void sdt_notes_place(struct sdt_buffer *notes, uint64_t sites, uint64_t base)
{
	for (size_t at = 0; at < notes->size; sites += SDT_SLOT) {
		unsigned char *note = notes->data + at;
		size_t size = get32(note + 4);

		sdt_put64(note + HEADER, sites);
		sdt_put64(note + HEADER + 8, base);
		at += HEADER + size + padding(size);
	}
}
