/* Which nop the process has, on kernels and under filters as they can be had here. */
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
#include <sys/wait.h>

#define NR_UPROBE 336

/* filter answers the system call in the kernel's place. */
static bool filter(unsigned answer)
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

static bool is(const char *name)
{
	if (strcmp(sdt_site_name(), name) == 0 && sdt_site_host() &&
	    sdt_site_idle == (unsigned char)sdt_site_host()->nop[0])
		return true;
	printf("# the site is %s, not %s\n", sdt_site_name(), name);
	return false;
}

#if defined(__x86_64__)
static const char *by_release(void)
{
	struct utsname uts;
	int major = 0, minor = 0;

	uname(&uts);
	sscanf(uts.release, "%d.%d", &major, &minor);
	return major * 1000 + minor >= 7003 ? "nop10" : major * 1000 + minor >= 6018 ? "nop5" : "nop1";
}

/* A container may have a filter, behind which the kernel is not asked. */
static const char *by_answer(void)
{
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
		return by_release();
	errno = 0;
	syscall(NR_UPROBE);
	return errno == ENXIO ? "nop5" : errno == EPROTO ? "nop10" : "nop1";
}

#define FIRST "nop1"
#else
#define FIRST sdt_site_find(SDT_HOST_ARCH, NULL)->name

static const char *by_answer(void)
{
	return FIRST;
}

static const char *by_release(void)
{
	return FIRST;
}
#endif

/* in_child runs a case in a process that has not chosen yet; 77 is a skip. */
static void in_child(int (*run)(void))
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		unsetenv("STAPSDT_SITE");
		status = run();
		fflush(stdout);
		_exit(status);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("no seccomp");
	CHECK(status == 0);
}

/* With a release that says 2.6 or so, only the answer can tell. */
static int asks(void)
{
	return personality(UNAME26) == -1 || !is(by_answer());
}

/* The filter's answer means ten bytes; the release does not. */
static int filtered(void)
{
	if (!filter(SECCOMP_RET_ERRNO | EPROTO))
		return 77;
	return !is(by_release());
}

static int filtered_old(void)
{
	if (!filter(SECCOMP_RET_ERRNO | EPROTO))
		return 77;
	return personality(UNAME26) == -1 || !is(FIRST);
}

static int killing(void)
{
	if (!filter(SECCOMP_RET_KILL_PROCESS))
		return 77;
	return !is(by_release());
}

/*
 * A filter of one thread is not in /proc/self/status, which is the first
 * thread's. Kernels that know the call let it through every filter, so that
 * here too only the old release tells that it was not made.
 */
static void *choose_filtered(void *data)
{
	(void)data;
	if (!filter(SECCOMP_RET_KILL_PROCESS))
		return "skip";
	return personality(UNAME26) != -1 && is(FIRST) ? NULL : "fail";
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

static int chosen(void)
{
	const struct sdt_site *last = sdt_site_find(SDT_HOST_ARCH, "nop10");

	if (!last)
		last = sdt_site_find(SDT_HOST_ARCH, NULL);
	setenv("STAPSDT_SITE", last->name, 1);
	if (!is(last->name))
		return 1;
	setenv("STAPSDT_SITE", FIRST, 1); /* too late: once a process */
	return !is(last->name);
}

static int unknown(void)
{
	setenv("STAPSDT_SITE", "nop7", 1);
	return !is(by_answer());
}

#define CASE(name) \
	static void test_##name(void) { in_child(name); }

CASE(asks)
CASE(filtered)
CASE(filtered_old)
CASE(killing)
CASE(killing_thread)
CASE(chosen)
CASE(unknown)

static const struct test tests[] = {
	{"by the kernel's answer", test_asks},
	{"by the release, under a filter", test_filtered},
	{"an old release, under a filter", test_filtered_old},
	{"a filter that kills", test_killing},
	{"a filter of one thread that kills", test_killing_thread},
	{"STAPSDT_SITE", test_chosen},
	{"STAPSDT_SITE with an unknown name", test_unknown},
};

TEST_MAIN("site", tests)
