/*
 * The frame of a test program, which is a table of functions. For each it prints "ok",
 * "not ok" or "skip" with its name. A function must leave no descriptor open, no file
 * in /tmp and no library loaded.
 */
#ifndef TEST_H
#define TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "../libstapsdt.h"

#include <dirent.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct test {
	const char *name;
	void (*run)(void);
};

static int test_failures;
static const char *test_skipped;

#define CHECK(condition)                                                                          \
	((condition) ? (void)0                                                                     \
		     : (void)(test_failures++, printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition)))

/* CHECK_ERROR expects the code, and an error line that contains the words. */
#define CHECK_ERROR(provider, code, words)                                                        \
	do {                                                                                       \
		CHECK(providerErrno(provider) == (code));                                          \
		CHECK(strstr(providerError(provider), (words)) != NULL);                           \
		if (test_failures)                                                                 \
			printf("# the error is \"%s\"\n", providerError(provider));                \
	} while (0)

#define SKIP(reason)                                                                              \
	do {                                                                                       \
		test_skipped = (reason);                                                           \
		return;                                                                            \
	} while (0)

/* test_in_valgrind reports whether the program runs in valgrind, which sets these for what it starts. */
static inline bool test_in_valgrind(void)
{
	const char *flavor = getenv("TEST_FLAVOR"), *preloaded = getenv("LD_PRELOAD");

	return (flavor && strcmp(flavor, "valgrind") == 0) || (preloaded && strstr(preloaded, "vgpreload"));
}

/* test_in_qemu reports whether qemu emulates the processor and the system calls: arm64.sh says so. */
static inline bool test_in_qemu(void)
{
	const char *flavor = getenv("TEST_FLAVOR");

	return flavor && strcmp(flavor, "qemu") == 0;
}

/* test_rounds returns how often to repeat something, which is less often where everything takes ten times as long. */
static inline int test_rounds(int rounds)
{
#if defined(__SANITIZE_THREAD__)
	return rounds / 10;
#else
	return test_in_valgrind() || test_in_qemu() ? rounds / 10 : rounds;
#endif
}

/* test_provider returns a provider whose files in /tmp can be recognized as this process's. */
static inline SDTProvider_t *test_provider(const char *name)
{
	char full[512];

	snprintf(full, sizeof full, "sdttest%d-%s", (int)getpid(), name);
	return providerInit(full);
}

/* test_probes returns a provider that keeps its image in this place, with this number of probes of two arguments. */
static inline SDTProvider_t *test_probes(const char *name, MemFDOption_t place, int count)
{
	SDTProvider_t *provider = test_provider(name);
	char probe[32];

	CHECK(providerUseMemfd(provider, place) == 1);
	for (int i = 0; i < count; i++) {
		snprintf(probe, sizeof probe, "probe%d", i);
		CHECK(providerAddProbe(provider, probe, 2, uint64, int32) != NULL);
	}
	return provider;
}

static inline int test_count(const char *directory, const char *prefix)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir)))
		count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	if (dir)
		closedir(dir);
	return count;
}

static inline int test_files(void)
{
	char prefix[32];

	snprintf(prefix, sizeof prefix, "sdttest%d-", (int)getpid());
	return test_count("/tmp", prefix);
}

static inline int test_count_object(struct dl_phdr_info *info, size_t size, void *count)
{
	(void)info;
	(void)size;
	++*(int *)count;
	return 0;
}

/* test_objects counts the libraries that the loader has loaded. */
static inline int test_objects(void)
{
	int count = 0;

	dl_iterate_phdr(test_count_object, &count);
	return count;
}

static inline int test_descriptors(void)
{
	return test_count("/proc/self/fd", "");
}

#if defined(__SANITIZE_ADDRESS__)
enum { FORKS_WITH_THREADS = 0 }; /* the allocator of the address sanitizer may be locked in a child */
#else
enum { FORKS_WITH_THREADS = 1 };
#endif

/* test_wait reports whether a child has found nothing wrong. */
static inline bool test_wait(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && status == 0;
}

/*
 * test_in_child runs a case in a process of its own, in which it may change anything. The case returns 0 if it found nothing
 * wrong, or 77 if it cannot be had, for which without says why. A signal ends one that hangs.
 */
static inline void test_in_child(int (*run)(void), const char *without)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(300);
		status = run();
		fflush(stdout);
		_exit(status);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP(without);
	CHECK(status == 0);
}

static inline int test_main(const char *suite, const struct test *tests, size_t count)
{
	const char *flavor = getenv("TEST_FLAVOR");
	int failed = 0;

	for (size_t i = 0; i < count; i++) {
		int descriptors = test_descriptors(), files = test_files(), objects = test_objects();

		test_failures = 0;
		test_skipped = NULL;
		tests[i].run();
		CHECK(test_descriptors() == descriptors);
		CHECK(test_files() == files);
		CHECK(test_objects() == objects);
		printf("%s %s: %s%s%s%s%s%s\n",
		       test_failures ? "not ok" : test_skipped ? "skip" : "ok", suite,
		       tests[i].name, flavor ? " (" : "", flavor ? flavor : "", flavor ? ")" : "",
		       test_skipped ? ": " : "", test_skipped ? test_skipped : "");
		fflush(stdout);
		failed += test_failures != 0;
	}
	return failed != 0;
}

#define TEST_MAIN(suite, tests) \
	int main(void) { return test_main(suite, tests, sizeof(tests) / sizeof(tests)[0]); }

/* A case that runs in a child: see test_in_child. */
struct test_case {
	const char *name;
	int (*run)(void);
	const char *without;
};

static const struct test_case *test_case;

/* test_cases runs cases, each by a function that passes test_case on to test_in_child. */
static inline int test_cases(const char *suite, const struct test_case *cases, size_t count, void (*run)(void))
{
	int failed = 0;

	for (test_case = cases; test_case < cases + count; test_case++)
		failed |= test_main(suite, &(const struct test){test_case->name, run}, 1);
	return failed;
}

#endif
