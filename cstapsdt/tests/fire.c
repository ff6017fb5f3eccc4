/* Tests of the values that arrive at a site, and of when a site is enabled. */
#include "test.h"

#include <stdint.h>
#include <sys/mman.h>

static uint64_t seen[SDT_MAX_ARGUMENTS];
static int calls;

static void record_values(const uint64_t *values, size_t count)
{
	memcpy(seen, values, count * sizeof *values);
	calls++;
}

/* On arm, the library fills the registers: see arch.def. */
#if defined(__arm__)
#define FILLED uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3,
#define UNUSED (void)r0, (void)r1, (void)r2, (void)r3
#else
#define FILLED
#define UNUSED (void)0
#endif

static void record6(FILLED uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	UNUSED;
	record_values((uint64_t[]){a, b, c, d, e, f}, 6);
}

static void record12(FILLED uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
		     uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l)
{
	UNUSED;
	record_values((uint64_t[]){a, b, c, d, e, f, g, h, i, j, k, l}, 12);
}

/*
 * A jump to the address that follows it. Its first byte reads as patched; on some
 * architectures it starts with an instruction that does nothing for that. It may be
 * longer than a slot.
 */
static const unsigned char jump[] = {
#if defined(__x86_64__)
	0xff, 0x25, 0, 0, 0, 0, /* jmp *0(%rip) */
#elif defined(__aarch64__)
	0xe0, 0x03, 0, 0xaa, 0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6, /* mov x0, x0; ldr x16, .+8; br x16 */
#elif defined(__riscv)
	0x97, 2, 0, 0, 0x83, 0xb2, 0xc2, 0, 0x67, 0x80, 2, 0, /* auipc t0, 0; ld t0, 12(t0); jr t0 */
#elif defined(__s390x__)
	0x18, 0x11, /* lr %r1,%r1 */
	0x0d, 0x10, 0xe3, 0x10, 0x10, 0x08, 0, 0x04, 0x07, 0xf1, /* basr %r1,0; lg %r1,8(%r1); br %r1 */
#elif defined(__powerpc64__)
	0x08, 0, 0, 0x38, /* li 0,8 */
	0xa6, 0x02, 0x08, 0x7c, 0x05, 0, 0x9f, 0x42, /* mflr 0; bcl 20,31,.+4 */
	0xa6, 0x02, 0x88, 0x7d, 0xa6, 0x03, 0x08, 0x7c, /* mflr 12; mtlr 0 */
	0x14, 0, 0x8c, 0xe9, 0xa6, 0x03, 0x89, 0x7d, /* ld 12, 20(12); mtctr 12 */
	0x20, 0x04, 0x80, 0x4e, /* bctr */
#elif defined(__i386__)
	0xff, 0x25, 0, 0, 0, 0, /* jmp *TARGET */
#elif defined(__arm__)
	0xf0, 0xc0, 0x8c, 0xe3, /* orr r12, r12, #0xf0 */
	0x04, 0xf0, 0x1f, 0xe5, /* ldr pc, [pc, #-4] */
#endif
};

#define PATCH (sizeof jump + sizeof(void *))

/* patch_site makes the site jump to a function. A tracer also changes the site. */
static void patch_site(unsigned char *site, void *target)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	CHECK(mprotect((void *)((uintptr_t)site & ~(page - 1)), page,
		       PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
	memcpy(site, jump, sizeof jump);
	memcpy(site + sizeof jump, &target, sizeof target);
#if defined(__i386__)
	target = site + sizeof jump;
	memcpy(site + 2, &target, sizeof target);
#endif
	__builtin___clear_cache((char *)site, (char *)site + PATCH);
}

static void *recorder_of(int count)
{
	return count <= 6 ? (void *)(uintptr_t)record6 : (void *)(uintptr_t)record12;
}

static SDTProbe_t *add_probe(SDTProvider_t *provider, int count)
{
	ArgType_t types[SDT_MAX_ARGUMENTS];
	char name[32];

	for (int i = 0; i < SDT_MAX_ARGUMENTS; i++)
		types[i] = i & 1 ? int64 : uint64;
	snprintf(name, sizeof name, "args%d", count);
	return providerAddProbeV(provider, name, count, types);
}

static const uint64_t v[SDT_MAX_ARGUMENTS] = {
	1, UINT64_MAX, 0x8000000000000000, 0x0123456789abcdef, 5, 6, 7, INT64_MAX, 9, 10, 11, 12};

static void expect_values(int count)
{
	CHECK(calls == 1);
	CHECK(memcmp(seen, v, (size_t)count * sizeof v[0]) == 0);
	calls = 0;
	memset(seen, 0x55, sizeof seen);
}

static void fire_all_values(SDTProbe_t *probe)
{
	probeFire(probe, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]);
}

/* fire_patched fires a probe at whose site a tracer is. A copy of its public part fires too: wrappers pass structs by value. */
static void fire_patched(SDTProbe_t *probe)
{
	SDTProbe_t copy = *probe;

	CHECK(probeIsEnabled(probe) == 1);
	fire_all_values(probe);
	expect_values(probe->argCount);
	probeFireV(probe, v);
	expect_values(probe->argCount);
	probeFireV(probe, NULL);
	CHECK(calls == (probe->argCount == 0));
	calls = 0;
	fire_all_values(&copy);
	expect_values(copy.argCount);
	copy.argCount = SDT_MAX_ARGUMENTS + 1;
	fire_all_values(&copy);
	probeFireV(&copy, v);
	CHECK(calls == 0);
}

static void arguments(void)
{
	SDTProvider_t *provider = providerInit("site");
	unsigned char saved[PATCH];

	for (int count = 0; count <= SDT_MAX_ARGUMENTS; count++)
		add_probe(provider, count);
	CHECK(providerLoad(provider) == 0);
	for (SDTProbeList_t *list = provider->probes; list; list = list->next) {
		SDTProbe_t *probe = &list->probe;

		probeFire(probe, v[0]);
		CHECK(probeIsEnabled(probe) == 0 && calls == 0);
		memcpy(saved, probe->_fire, sizeof saved);
		patch_site(probe->_fire, recorder_of(probe->argCount));
		fire_patched(probe);
		memcpy(probe->_fire, saved, sizeof saved);
		__builtin___clear_cache(probe->_fire, (char *)probe->_fire + PATCH);
		CHECK(probeIsEnabled(probe) == 0);
		probeFireV(probe, v);
		CHECK(calls == 0);
	}
	providerDestroy(provider);
}

static int evaluated;

static uint64_t next_value(void)
{
	return v[evaluated++];
}

/* fires_once fires in each way, and checks that the arguments are evaluated once by each. */
static void fires_once(SDTProbe_t *probe)
{
	void (*volatile fire)(SDTProbe_t *, ...) = probeFire;
	void (*volatile fire_v)(SDTProbe_t *, const uint64_t *) = probeFireV;
	int (*volatile enabled)(SDTProbe_t *) = probeIsEnabled;
	int before = calls, expected = probeIsEnabled(probe);

	CHECK(enabled(probe) == expected);
	evaluated = 0;
	probeFire(probe, next_value(), (uint64_t)7);
	CHECK(evaluated == 1 && calls == before + expected);
	fire(probe, next_value(), (uint64_t)7);
	CHECK(evaluated == 2 && calls == before + 2 * expected);
	probeFireV(probe, (uint64_t[]){next_value(), 7});
	CHECK(evaluated == 3 && calls == before + 3 * expected);
	fire_v(probe, (uint64_t[]){next_value(), 7});
	CHECK(evaluated == 4 && calls == before + 4 * expected);
	CHECK(!expected || (seen[0] == v[3] && seen[1] == 7));
}

/* The test of an idle probe is inlined, but the functions are still those of the library, with addresses. */
static void inlined(void)
{
	SDTProvider_t *provider = providerInit("inlined");
	SDTProbe_t *probe = add_probe(provider, 2), copy;
	unsigned char saved[PATCH];

	calls = 0;
	fires_once(NULL);
	fires_once(probe);
	CHECK(providerLoad(provider) == 0);
	fires_once(probe);
	CHECK(calls == 0);
	memcpy(saved, probe->_fire, sizeof saved);
	patch_site(probe->_fire, recorder_of(probe->argCount));
	fires_once(probe);
	copy = *probe;
	fires_once(&copy);
	CHECK(calls == 8);
	memcpy(probe->_fire, saved, sizeof saved);
	__builtin___clear_cache(probe->_fire, (char *)probe->_fire + PATCH);
	providerDestroy(provider);
}

static const struct test tests[] = {
	{"0 to 12 arguments", arguments},
	{"inlined", inlined},
};

TEST_MAIN("fire", tests)
