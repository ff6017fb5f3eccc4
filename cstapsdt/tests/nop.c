/* Tests of the choice of the nop, on various kernels and under seccomp filters. */
#include "../private.h"
#include "test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#define NR_UPROBE 336

#if defined(__x86_64__)
#define NOPS "nop1, nop5, nop10, or fast"
#else
#define NOPS "nop" /* and a number */
#endif

/* filter_call makes a seccomp filter answer the uprobe system call instead of the kernel. */
static bool filter_call(unsigned answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR_UPROBE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof code[0], code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool is_nop(const char *name)
{
	if (strcmp(sdt_nop_name(), name) == 0)
		return true;
	printf("# the nop is %s, not %s\n", sdt_nop_name(), name);
	return false;
}

/* gets_nop reports whether a provider is loaded with that nop, or, for NULL, is not loaded. */
static bool gets_nop(SDTSite_t use, const char *name)
{
	SDTProvider_t *provider = providerInit("gets");
	SDTProbe_t *probe = providerAddProbe(provider, "probe", 1, uint64);
	const struct sdt_nop *nop = name ? sdt_nop_find(SDT_HOST_ARCH, name) : NULL;
	bool got;

	CHECK(providerUseSite(provider, use) == 0);
	got = (providerLoad(provider) == 0) == (name != NULL);
	if (got && name) {
		got = nop && memcmp(probe->_fire, nop->code, nop->size) == 0;
		CHECK(probeIsEnabled(probe) == 0);
		probeFire(probe, (uint64_t)1);
	}
	if (!got)
		printf("# not %s: %s\n", name ? name : "refused", providerError(provider));
	if (!name) {
		CHECK_ERROR(provider, elfCreationError, "STAPSDT_SITE=nop7: sites on ");
		CHECK_ERROR(provider, elfCreationError, " are " NOPS);
	}
	providerDestroy(provider);
	return got;
}

/* The library calls this uname. */
static const char *pretended;

int uname(struct utsname *uts)
{
	int result = (int)syscall(SYS_uname, uts);

	if (pretended)
		snprintf(uts->release, sizeof uts->release, "%s", pretended);
	return result;
}

#if defined(__x86_64__)
static const char *nop_of_release(void)
{
	struct utsname uts;
	int major = 0, minor = 0;

	uname(&uts);
	sscanf(uts.release, "%d.%d", &major, &minor);
	return major * 1000 + minor >= 7003 ? "nop10" : major * 1000 + minor >= 6018 ? "nop5" : "nop1";
}

/* In a container with a filter, the library does not ask the kernel. */
static const char *nop_of_kernel(void)
{
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
		return nop_of_release();
	errno = 0;
	syscall(NR_UPROBE);
	return errno == ENXIO ? "nop5" : errno == EPROTO ? "nop10" : "nop1";
}

#define FIRST "nop1"
#else
#define FIRST sdt_nop_find(SDT_HOST_ARCH, NULL)->name

static const char *nop_of_kernel(void)
{
	return FIRST;
}

static const char *nop_of_release(void)
{
	return FIRST;
}
#endif

/* in_child runs a case in a process that has not chosen a nop yet. */
static void in_child(void)
{
	unsetenv("STAPSDT_SITE");
	test_in_child(test_case->run, test_case->without);
}

/* The release says 2.6, so that only the kernel's answer leads to the right nop. */
static int asks(void)
{
	return personality(UNAME26) == -1 || !is_nop(nop_of_kernel());
}

/* The answer of the filter stands for ten bytes; the release does not. */
static int filtered(void)
{
	if (!filter_call(SECCOMP_RET_ERRNO | EPROTO))
		return 77;
	return !is_nop(nop_of_release());
}

static int filtered_old(void)
{
	if (!filter_call(SECCOMP_RET_ERRNO | EPROTO))
		return 77;
	return personality(UNAME26) == -1 || !is_nop(FIRST);
}

static int killing(void)
{
	if (!filter_call(SECCOMP_RET_KILL_PROCESS))
		return 77;
	return !is_nop(nop_of_release());
}

/*
 * The filter of one thread is not in /proc/self/status, which describes the first
 * thread. Kernels that know the call let it through every filter. Therefore only the
 * old release shows that the call was not made.
 */
static void *choose_filtered(void *data)
{
	(void)data;
	if (!filter_call(SECCOMP_RET_KILL_PROCESS))
		return "skip";
	return personality(UNAME26) != -1 && is_nop(FIRST) ? NULL : "fail";
}

static int killing_thread(void)
{
	pthread_t thread;
	void *result;

	if (pthread_create(&thread, NULL, choose_filtered, NULL) != 0 ||
	    pthread_join(thread, &result) != 0)
		return 1;
	if (result)
		return strcmp(result, "skip") == 0 ? 77 : 1;
	return 0;
}

/* The last nop of the architecture: on some it is the only one. */
static const char *last_nop(void)
{
	return sdt_nop_find(SDT_HOST_ARCH, "nop10") ? "nop10" : FIRST;
}

static int safe_by_default(void)
{
	return !gets_nop(sdt_site_safe, FIRST);
}

static int fast_by_call(void)
{
	return !gets_nop(sdt_site_fast, nop_of_kernel());
}

static int by_variable(void)
{
	setenv("STAPSDT_SITE", last_nop(), 1);
	if (!gets_nop(sdt_site_safe, last_nop()) || !gets_nop(sdt_site_fast, last_nop()) ||
	    !is_nop(nop_of_kernel()))
		return 1;
	setenv("STAPSDT_SITE", FIRST, 1);
	if (!gets_nop(sdt_site_safe, FIRST) || !gets_nop(sdt_site_fast, FIRST))
		return 1;
	setenv("STAPSDT_SITE", "fast", 1);
	if (!gets_nop(sdt_site_safe, nop_of_kernel()))
		return 1;
	setenv("STAPSDT_SITE", "", 1);
	return !gets_nop(sdt_site_safe, FIRST) || !gets_nop(sdt_site_fast, nop_of_kernel());
}

static int unknown(void)
{
	setenv("STAPSDT_SITE", "nop7", 1);
	return !gets_nop(sdt_site_safe, NULL) || !gets_nop(sdt_site_fast, NULL);
}

/* Each provider has its own nop, and the nops have different first bytes. */
static int side_by_side(void)
{
	SDTProvider_t *safe = providerInit("safe"), *fast = providerInit("fast");
	SDTProbe_t *one = providerAddProbe(safe, "one", 0), *two = providerAddProbe(fast, "two", 0);

	setenv("STAPSDT_SITE", last_nop(), 1);
	CHECK(providerLoad(fast) == 0);
	unsetenv("STAPSDT_SITE");
	CHECK(providerLoad(safe) == 0);
	CHECK(probeIsEnabled(one) == 0 && probeIsEnabled(two) == 0);
	providerDestroy(safe);
	providerDestroy(fast);
	return test_failures != 0;
}

static int misused(void)
{
	SDTProvider_t *provider = providerInit("misused");

	CHECK(providerUseSite(NULL, sdt_site_fast) == -1);
	CHECK(providerUseSite(provider, (SDTSite_t)2) == -1);
	CHECK_ERROR(provider, elfCreationError, "choose the nop of misused: unknown choice 2");
	CHECK(providerLoad(provider) == 0);
	CHECK(providerUseSite(provider, sdt_site_fast) == -1);
	CHECK_ERROR(provider, elfCreationError, "choose the nop of misused: the provider is loaded");
	CHECK(providerUnload(provider) == 0);
	CHECK(providerUseSite(provider, sdt_site_fast) == 0);
	CHECK_ERROR(provider, noError, "");
	providerDestroy(provider);
	return test_failures != 0;
}

/* The first byte of a nop reads as idle; the bytes that tracers and debuggers write do not. */
static int patched(void)
{
	static const char *const names[] = {"nop1", "nop2", "nop4", "nop5", "nop10"};
#if defined(__x86_64__) || defined(__i386__)
	static const unsigned char written[] = {0xcc, 0xe8, 0x48};
#elif defined(__aarch64__)
	static const unsigned char written[] = {0xa0, 0x00};
#elif defined(__riscv)
	static const unsigned char written[] = {0x02, 0x73};
#elif defined(__s390x__)
	static const unsigned char written[] = {0x00};
#elif defined(__powerpc64__)
	static const unsigned char written[] = {0x08};
#else
	static const unsigned char written[] = {0xf0, 0xf9, 0xfe};
#endif

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const struct sdt_nop *nop = sdt_nop_find(SDT_HOST_ARCH, names[i]);

		CHECK(!nop || !sdt_is_patched((unsigned char)nop->code[0]));
	}
	for (size_t i = 0; i < sizeof written; i++)
		CHECK(sdt_is_patched(written[i]));
	return test_failures != 0;
}

#if defined(__x86_64__)
static int nop_of_releases(void)
{
	static const char *const known[][2] = {
		{"5.10.0-8-amd64", "nop1"}, {"6.17.13+deb14", "nop1"}, {"6.18.0-rc1", "nop5"},
		{"6.18", "nop5"}, {"6.19", "nop5"}, {"7.0.1", "nop5"}, {"7.2.13", "nop5"},
		{"7.3.0", "nop10"}, {"7.4", "nop10"}, {"8.0", "nop10"}, {"10.1", "nop10"},
		{"", "nop1"}, {"linux", "nop1"}, {"7", "nop1"}, {"7.x", "nop1"}};

	if (!filter_call(SECCOMP_RET_ERRNO | EPROTO))
		return 77;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		pid_t child = fork();

		if (child == 0) {
			pretended = known[i][0];
			CHECK(is_nop(known[i][1]));
			fflush(stdout);
			_exit(test_failures);
		}
		CHECK(test_wait(child));
	}
	return test_failures != 0;
}
#endif

#define SECCOMP "no seccomp"
static const struct test_case cases[] = {
	{"by the kernel's answer", asks, SECCOMP},
	{"by the release, under a filter", filtered, SECCOMP},
	{"an old release, under a filter", filtered_old, SECCOMP},
	{"a filter that kills", killing, SECCOMP},
	{"a filter of one thread that kills", killing_thread, SECCOMP},
#if defined(__x86_64__)
	{"by releases, under a filter", nop_of_releases, SECCOMP},
#endif
	{"the safe nop by default", safe_by_default, SECCOMP},
	{"the fast nop by a call", fast_by_call, SECCOMP},
	{"STAPSDT_SITE", by_variable, SECCOMP},
	{"STAPSDT_SITE with an unknown name", unknown, SECCOMP},
	{"two nops side by side", side_by_side, SECCOMP},
	{"an unknown choice, and a loaded provider", misused, SECCOMP},
	{"what reads as patched", patched, SECCOMP},
};

int main(void) { return test_cases("nop", cases, sizeof cases / sizeof cases[0], in_child); }
