/* Firing a probe, and asking whether it is enabled. */
#include "private.h"

#include <stdarg.h>

typedef uint64_t word;

/* On arm, unused words fill the registers, so that all values are on the stack: see arch.def. */
#if defined(__arm__)
#define FILL_TYPES uint32_t, uint32_t, uint32_t, uint32_t,
#define FILL 0, 0, 0, 0,
#else
#define FILL_TYPES
#define FILL
#endif

typedef void (*fire6_fn)(FILL_TYPES word, word, word, word, word, word);
typedef void (*fire12_fn)(FILL_TYPES word, word, word, word, word, word, word, word, word, word,
			  word, word);

/* A sanitizer would look for type information before a site, where there is none. */
#if defined(__clang__)
#define NO_FUNCTION_CHECK __attribute__((no_sanitize("function")))
#else
#define NO_FUNCTION_CHECK
#endif

/*
 * enabled_site returns the site if it is enabled, or NULL. It reads only public members,
 * so that a copy of an SDTProbe_t fires too. The caller calls the address that was
 * tested, rather than loading it a second time.
 */
static inline void *enabled_site(const SDTProbe_t *probe)
{
	void *site;

	if (!probe)
		return NULL;
	site = __atomic_load_n(&probe->_fire, __ATOMIC_RELAXED);
	/* volatile, because the kernel writes to the site */
	if (!site || !sdt_is_patched(*(const volatile unsigned char *)site))
		return NULL;
	return site;
}

/*
 * call_site calls a site, which has no frame of its own: the first caller that tracers find
 * by frame pointers is the caller of the function that contains call_site. For this reason
 * it is inlined, and does not end with the call, which would then replace that function's
 * frame.
 */
NO_FUNCTION_CHECK
static inline __attribute__((always_inline)) void call_site(void *site, const word *v, int count)
{
	if (count <= 6)
		((fire6_fn)site)(FILL v[0], v[1], v[2], v[3], v[4], v[5]);
	else
		((fire12_fn)site)(FILL v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9],
				  v[10], v[11]);
	__asm__ volatile("");
}

/*
 * clear_rest clears the words that no argument has, for a site. Otherwise gcc would clear them by
 * an instruction that takes as long as a record.
 */
static inline __attribute__((always_inline)) void clear_rest(word *values, int count)
{
	for (; count < SDT_MAX_ARGUMENTS; count++) {
		values[count] = 0;
		__asm__ volatile("");
	}
}

#ifdef SDT_IN_GO
#define RECORD(probe, site, values) ((void)0)
#else
/*
 * clear_recorded is clear_rest for RECORD, as a function: a loop in RECORD would need registers
 * that have to be saved.
 */
static __attribute__((noinline)) void clear_recorded(word *values, int count)
{
	clear_rest(values, count);
}

/*
 * RECORD records a fire if the address of its site is the address of the slot's entry, calls the
 * site if it is traced too, and returns from its function. The values needed after the call are
 * kept in memory, because saving registers for them would cost every idle fire some instructions.
 */
#define RECORD(probe, site, values)                                                               \
	do {                                                                                       \
		const SDTProbe_t *volatile kept = (probe);                                         \
		word *volatile words = (values);                                                   \
		void *volatile traced;                                                             \
		uintptr_t into = (uintptr_t)(site);                                                \
                                                                                                   \
		__asm__ volatile("" : "+r"(into) : : "memory");                                    \
		if (__builtin_expect(into % SDT_SLOT == 0, 1))                                     \
			break;                                                                     \
		traced = (void *)(into - into % SDT_SLOT);                                         \
		sdt_append_fire((probe), into, (values), (probe)->argCount);                       \
		if (sdt_is_patched(*(const volatile unsigned char *)traced)) {                     \
			clear_recorded(words, kept->argCount);                                     \
			call_site(traced, (values), kept->argCount);                               \
		}                                                                                  \
		return;                                                                            \
	} while (0)
#endif

void probeFire(SDTProbe_t *probe, ...)
{
	void *site = enabled_site(probe);
	word values[SDT_MAX_ARGUMENTS];
	va_list list;

	if (__builtin_expect(!site, 1) || (unsigned)probe->argCount > SDT_MAX_ARGUMENTS)
		return;
	va_start(list, probe);
	for (int i = 0; i < probe->argCount; i++)
		values[i] = va_arg(list, word);
	va_end(list);
	RECORD(probe, site, values);
	clear_rest(values, probe->argCount);
	call_site(site, values, probe->argCount);
}

void probeFireV(SDTProbe_t *probe, const uint64_t *values)
{
	void *site = enabled_site(probe);
	word all[SDT_MAX_ARGUMENTS];

	if (__builtin_expect(!site, 1) || (unsigned)probe->argCount > SDT_MAX_ARGUMENTS)
		return;
	if (probe->argCount > 0 && !values)
		return;
	for (int i = 0; i < probe->argCount; i++) {
		all[i] = values[i];
		/* otherwise gcc copies by rep movs, which takes as long as a record */
		__asm__ volatile("");
	}
	RECORD(probe, site, all);
	clear_rest(all, probe->argCount);
	call_site(site, all, probe->argCount);
}

int probeIsEnabled(SDTProbe_t *probe)
{
	return enabled_site(probe) != NULL;
}

int64_t probeOffset(const SDTProbe_t *probe)
{
	const struct sdt_probe *self = (const struct sdt_probe *)probe;
	const struct sdt_provider *provider;

	if (!probe)
		return -1;
	provider = (const struct sdt_provider *)probe->provider;
	if (self->index >= provider->described)
		return -1;
	return (int64_t)(provider->text_offset + SDT_SLOT * self->index);
}
