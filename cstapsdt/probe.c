#include "private.h"

#include <stdarg.h>
#include <stdatomic.h>

typedef uint64_t word;

/* On arm, words of no meaning fill the registers, so that the values are on the stack: see arch.def. */
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

/* A site has no type information before it that a sanitizer could check. */
#if defined(__clang__)
#define NO_FUNCTION_CHECK __attribute__((no_sanitize("function")))
#else
#define NO_FUNCTION_CHECK
#endif

/*
 * What fires and tests reads public members only, so that a copy of an SDTProbe_t
 * fires as well. The address that is tested is the one that is called.
 */
static inline void *enabled_site(const SDTProbe_t *probe)
{
	void *site;

	if (!probe)
		return NULL;
	site = __atomic_load_n(&probe->_fire, __ATOMIC_RELAXED);
	/* volatile: the kernel writes there. */
	if (!site || *(const volatile unsigned char *)site ==
			     atomic_load_explicit(&sdt_site_idle, memory_order_relaxed))
		return NULL;
	return site;
}

NO_FUNCTION_CHECK
static void call(void *site, const word *v, int count)
{
	if (count <= 6)
		((fire6_fn)site)(FILL v[0], v[1], v[2], v[3], v[4], v[5]);
	else
		((fire12_fn)site)(FILL v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9],
				  v[10], v[11]);
}

void probeFire(SDTProbe_t *probe, ...)
{
	void *site = enabled_site(probe);
	word values[SDT_MAX_ARGUMENTS] = {0};
	va_list list;

	if (__builtin_expect(!site, 1) || probe->argCount > SDT_MAX_ARGUMENTS)
		return;
	va_start(list, probe);
	for (int i = 0; i < probe->argCount; i++)
		values[i] = va_arg(list, word);
	va_end(list);
	call(site, values, probe->argCount);
}

void probeFireV(SDTProbe_t *probe, const uint64_t *values)
{
	void *site = enabled_site(probe);
	word all[SDT_MAX_ARGUMENTS] = {0};

	if (__builtin_expect(!site, 1) || probe->argCount > SDT_MAX_ARGUMENTS)
		return;
	if (probe->argCount > 0 && !values)
		return;
	for (int i = 0; i < probe->argCount; i++)
		all[i] = values[i];
	call(site, all, probe->argCount);
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
