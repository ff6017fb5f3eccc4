/*
 * Tests by the calls of the bindings that docs/compatibility.md lists. They expect the
 * answers of the original library.
 */
#include "test.h"

#include <stdint.h>

#undef errno /* the bindings read the member of this name */

/* inline_enabled is the test that salp and tracers have in place of probeIsEnabled. */
static bool inline_enabled(const SDTProbe_t *probe)
{
	const unsigned char *site = probe->_fire;

	return site && (*site & 0x90) != 0x90;
}

static const ArgType_t types[] = {uint64, int32, uint8, int8, uint16, int64};
static const uint64_t words[] = {1, (uint64_t)-2, 3, (uint64_t)-4, 5, (uint64_t)-6};

static void fire_counted(SDTProbe_t *probe, const uint64_t *w) { probeFire(probe, w[0], w[1], w[2], w[3], w[4], w[5]); }

/*
 * add_each adds a probe for each number of arguments. It always passes six types, and fire_counted six words, as libstapsdt-jni
 * does; the other bindings pass those that count.
 */
static void add_each(SDTProvider_t *provider, SDTProbe_t *probes[7])
{
	char name[] = "probe0";

	for (int count = 0; count <= MAX_ARGUMENTS; count++, name[5]++) {
		probes[count] = providerAddProbe(provider, name, count, types[0], types[1], types[2], types[3], types[4],
						 types[5]);
		CHECK(probes[count] && probes[count]->argCount == count);
		CHECK(strcmp(probes[count]->name, name) == 0 && probes[count]->provider == provider);
		CHECK(count == MAX_ARGUMENTS || probes[count]->argFmt[count] == noarg);
	}
}

/*
 * python-stapsdt, usdt for Node and for R, and p5-libstapsdt load, unload and destroy at any time. A probe that is NULL does
 * nothing. ctypes passes ints, Node pointers, and DynamicProbes every word as a long.
 */
static void any_state(void)
{
	for (int loaded = 0; loaded < 2; loaded++) {
		SDTProvider_t *provider = test_provider("any");
		SDTProbe_t *probe = providerAddProbe(provider, "probe", 2, uint64, int32), *late;

		CHECK(provider && probe && probeIsEnabled(probe) == 0);
		CHECK(providerUnload(provider) == 0);
		for (int i = 0; i < 2; i++) {
			CHECK(providerLoad(provider) == 0 && providerLoad(provider) == 0);
			CHECK(probeIsEnabled(probe) == 0);
			probeFire(probe, 1, -1);
			probeFire(probe, (void *)(uintptr_t)9, (void *)"text");
			probeFire(probe, (int64_t)INT64_MIN, (int64_t)(uintptr_t)"text");
			late = providerAddProbe(provider, "late", 0);
			CHECK(probeIsEnabled(late) == 0);
			probeFire(late);
			CHECK(providerUnload(provider) == 0 && providerUnload(provider) == 0);
		}
		CHECK(!loaded || providerLoad(provider) == 0);
		providerDestroy(provider);
	}
}

/*
 * What salp, tracers for Rust, libstapsdt-jni and ruby-stapsdt do, to which -1 is an error only if errno is another than
 * noError. With six types salp says that there are five. ruby-static-tracing sets the path to NULL before it unloads.
 */
static void each_count(void)
{
	SDTProvider_t *provider = test_provider("each");
	SDTProbe_t *probes[7], *six;

	CHECK(provider->errno == noError && provider->error == NULL && provider->_filename == NULL);
	add_each(provider, probes);
	six = providerAddProbe(provider, "six", 5, types[0], types[1], types[2], types[3], types[4], types[5]);
	CHECK(six && six->argCount == 5 && strcmp(six->name, "six") == 0);
	CHECK(!inline_enabled(six));
	CHECK(providerLoad(provider) == 0 && provider->errno == noError);
	CHECK(provider->_filename && *provider->_filename == '/');
	for (int count = 0; count <= MAX_ARGUMENTS; count++) {
#if defined(__x86_64__) || defined(__i386__)
		CHECK(!inline_enabled(probes[count]));
#endif
		fire_counted(probes[count], words);
		CHECK(probeIsEnabled(probes[count]) == 0);
	}
	provider->_filename = NULL;
	CHECK(providerUnload(provider) == 0 && provider->errno == noError);
	CHECK(!inline_enabled(six) && six->_fire == NULL);
	providerDestroy(provider);
}

/* ruby-stapsdt and salp: after -1, errno has a code, and error a text. */
static void failures(void)
{
	SDTProvider_t *bad = test_provider("no/directory");

	CHECK(providerAddProbe(bad, "probe", 0) != NULL);
	CHECK(providerLoad(bad) == -1);
	CHECK(bad->errno == tmpCreationError && bad->error && *bad->error);
	CHECK(providerUnload(bad) == 0);
	providerDestroy(bad);
}

#if defined(__x86_64__) || defined(__i386__)
/* What a tracer writes over the one-byte nop is enabled by every rule. */
static void breakpoint(void)
{
	static unsigned char int3 = 0xcc;
	SDTProvider_t *provider = test_provider("breakpoint");
	SDTProbe_t *probe = providerAddProbe(provider, "probe", 0), copy = *probe;

	copy._fire = &int3;
	CHECK(inline_enabled(&copy) && probeIsEnabled(&copy) == 1);
	providerDestroy(provider);
}
#endif

static const struct test tests[] = {
	{"in any state", any_state},
	{"each number of arguments", each_count},
	{"failures", failures},
#if defined(__x86_64__) || defined(__i386__)
	{"an inlined test of a breakpoint", breakpoint},
#endif
};

TEST_MAIN("bindings", tests)
