/*
 * Tests by the calls of the bindings that docs/compatibility.md lists, in their order. Each
 * expects the answers of the original library.
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
	}
}

/* python-stapsdt: load and unload at any time; a probe that is NULL does nothing. */
static void python(void)
{
	SDTProvider_t *provider = test_provider("python");
	SDTProbe_t *probe = providerAddProbe(provider, "probe", 2, uint64, int32), *late;

	CHECK(provider && probe && probeIsEnabled(probe) == 0);
	CHECK(providerUnload(provider) == 0);
	CHECK(providerLoad(provider) == 0);
	CHECK(providerLoad(provider) == 0);
	CHECK(probeIsEnabled(probe) == 0);
	probeFire(probe, 1, -1); /* ctypes passes ints */
	late = providerAddProbe(provider, "late", 0);
	CHECK(probeIsEnabled(late) == 0);
	probeFire(late);
	CHECK(providerUnload(provider) == 0);
	CHECK(providerUnload(provider) == 0);
	CHECK(providerLoad(provider) == 0);
	providerDestroy(provider); /* __del__, without unload */
}

/* usdt for Node: enable and disable call load and unload without a look at the state. */
static void node(void)
{
	SDTProvider_t *provider = test_provider("node");
	SDTProbe_t *probe = providerAddProbe(provider, "firstProbe", 2, int32, uint64);
	char *text = strdup("My little string");

	CHECK(provider && probe);
	CHECK(providerUnload(provider) == 0);
	for (int i = 0; i < 2; i++) {
		CHECK(providerLoad(provider) == 0);
		CHECK(providerLoad(provider) == 0);
		CHECK(probeIsEnabled(probe) == 0);
		probeFire(probe, (void *)(uintptr_t)9, (void *)text);
		CHECK(providerUnload(provider) == 0);
	}
	CHECK(providerLoad(provider) == 0);
	free(text);
	providerDestroy(provider);
}

/* ruby-static-tracing: the path is a member, which it sets to NULL before each unload. */
static void ruby_static_tracing(void)
{
	SDTProvider_t *provider = test_provider("ruby");
	SDTProbe_t *probes[7];

	add_each(provider, probes);
	CHECK(provider->_filename == NULL);
	for (int i = 0; i < 2; i++) {
		CHECK(providerLoad(provider) == 0);
		CHECK(provider->_filename && *provider->_filename == '/');
		for (int count = 0; count <= MAX_ARGUMENTS; count++) {
			CHECK(probeIsEnabled(probes[count]) != 1);
			fire_counted(probes[count], words);
		}
		provider->_filename = NULL;
		CHECK(providerUnload(provider) == 0);
		provider->_filename = NULL;
		CHECK(providerUnload(provider) == 0);
	}
	CHECK(providerLoad(provider) == 0);
	providerDestroy(provider);
}

/* ruby-stapsdt: -1 is an error only if errno is another than noError, and has a text then. */
static void ruby_stapsdt(void)
{
	SDTProvider_t *provider = test_provider("ruby"), *bad = test_provider("no/directory");
	SDTProbe_t *probes[7];

	CHECK(provider->errno == noError && provider->error == NULL);
	add_each(provider, probes);
	CHECK(providerLoad(provider) != -1);
	CHECK(provider->errno == noError);
	for (int count = 0; count <= MAX_ARGUMENTS; count++) {
		CHECK(probes[count]->argCount == count);
		fire_counted(probes[count], words);
		CHECK(probeIsEnabled(probes[count]) == 0);
	}
	CHECK(providerUnload(provider) != -1);
	CHECK(provider->errno == noError);
	providerDestroy(provider);

	CHECK(providerAddProbe(bad, "probe", 0) != NULL);
	CHECK(providerLoad(bad) == -1);
	CHECK(bad->errno == tmpCreationError && bad->error && *bad->error);
	CHECK(providerUnload(bad) == 0);
	providerDestroy(bad);
}

/* salp: reads _fire itself, names and errors too. With six types it says that there are five. */
static void salp(void)
{
	SDTProvider_t *provider = test_provider("salp");
	SDTProbe_t *probes[7], *six;

	add_each(provider, probes);
	six = providerAddProbe(provider, "six", 5, types[0], types[1], types[2], types[3], types[4], types[5]);
	CHECK(six && six->argCount == 5 && strcmp(six->name, "six") == 0);
	CHECK(!inline_enabled(six));
	CHECK(providerLoad(provider) == 0);
	for (int count = 0; count <= MAX_ARGUMENTS; count++) {
#if defined(__x86_64__) || defined(__i386__)
		CHECK(!inline_enabled(probes[count]));
#endif
		fire_counted(probes[count], words);
	}
	CHECK(providerUnload(provider) == 0);
	CHECK(!inline_enabled(six) && six->_fire == NULL);
	providerDestroy(provider);
}

/* tracers for Rust: all probes first, of up to twelve arguments, of which six are passed. */
static void tracers(void)
{
	SDTProvider_t *provider = test_provider("tracers");
	SDTProbe_t *probes[7];

	add_each(provider, probes);
	CHECK(providerLoad(provider) == 0);
#if defined(__x86_64__) || defined(__i386__)
	CHECK(!inline_enabled(probes[6]) && probeIsEnabled(probes[6]) == 0);
#endif
	fire_counted(probes[6], words);
	CHECK(providerUnload(provider) == 0);
	providerDestroy(provider);
}

/* libstapsdt-jni: always passes six types and six words, whatever the number of arguments. */
static void jni(void)
{
	SDTProvider_t *provider = test_provider("jni");
	SDTProbe_t *probes[7];

	add_each(provider, probes);
	for (int count = 0; count < MAX_ARGUMENTS; count++)
		CHECK(probes[count]->argFmt[count] == noarg);
	CHECK(providerLoad(provider) == 0);
	for (int count = 0; count <= MAX_ARGUMENTS; count++) {
		fire_counted(probes[count], words);
		CHECK(probeIsEnabled(probes[count]) != 1);
	}
	CHECK(providerUnload(provider) == 0);
	providerDestroy(provider);
}

/* p5-libstapsdt: fires without a look at whether the probe is enabled. */
static void perl(void)
{
	SDTProvider_t *provider = test_provider("perl");
	SDTProbe_t *probe = providerAddProbe(provider, "probe1", 0);

	CHECK(provider && probe);
	CHECK(providerLoad(provider) == 0);
	probeFire(probe);
	CHECK(probeIsEnabled(probe) == 0);
	providerDestroy(provider);
}

/* usdt for R: knows itself whether the provider is loaded, and destroys it in either state. */
static void r(void)
{
	for (int loaded = 0; loaded < 2; loaded++) {
		SDTProvider_t *provider = test_provider("r");
		SDTProbe_t *probes[7];

		add_each(provider, probes);
		CHECK(!(providerLoad(provider) < 0));
		CHECK(!probeIsEnabled(probes[3]) && probes[3]->argCount == 3);
		CHECK(!(providerUnload(provider) < 0));
		if (loaded)
			CHECK(!(providerLoad(provider) < 0));
		providerDestroy(provider);
	}
}

/* DynamicProbes for .NET: declares the functions without "...", and passes every word as long. */
static void dotnet(void)
{
	SDTProvider_t *provider = test_provider("dotnet");
	SDTProbe_t *probes[7];
	int64_t least = INT64_MIN;

	CHECK(providerUseMemfd(provider, memfd_enabled) == 1);
	add_each(provider, probes);
	for (int i = 0; i < 2; i++) {
		CHECK(providerLoad(provider) == 0);
		probeFire(probes[2], least, (int64_t)(uintptr_t)"text");
		CHECK(probeIsEnabled(probes[2]) == 0);
		CHECK(providerUnload(provider) == 0);
	}
	providerDestroy(provider);
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
	{"python-stapsdt", python},
	{"node-usdt", node},
	{"ruby-static-tracing", ruby_static_tracing},
	{"ruby-stapsdt", ruby_stapsdt},
	{"salp", salp},
	{"tracers", tracers},
	{"libstapsdt-jni", jni},
	{"p5-libstapsdt", perl},
	{"usdt for R", r},
	{"DynamicProbes", dotnet},
#if defined(__x86_64__) || defined(__i386__)
	{"an inlined test of a breakpoint", breakpoint},
#endif
};

TEST_MAIN("bindings", tests)
