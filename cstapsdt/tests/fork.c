/* Tests of the children of a process that has loaded a provider. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>

static SDTProvider_t *loaded_provider(const char *name, MemFDOption_t place)
{
	SDTProvider_t *provider = test_probes(name, place, 1);

	CHECK(providerLoad(provider) == 0);
	return provider;
}

static void fire_probe(SDTProvider_t *provider) { probeFire(&provider->probes->probe, (uint64_t)1, (uint64_t)2); }

/*
 * A child has its own descriptors, and its loader knows the paths of its parent, but the
 * file belongs to the parent.
 */
static void child_of(SDTProvider_t *provider)
{
	pid_t child = fork();

	if (child == 0) {
		fire_probe(provider);
		CHECK(providerUnload(provider) == 0);
		CHECK(providerLoad(provider) == 0);
		fire_probe(provider);
		providerDestroy(provider);
		_exit(test_failures != 0);
	}
	CHECK(test_wait(child));
	CHECK(access(provider->_filename, R_OK) == 0);
	fire_probe(provider);
	providerDestroy(provider);
}

static void in_memory(void) { child_of(loaded_provider("memory", memfd_enabled)); }
static void in_a_file(void) { child_of(loaded_provider("file", memfd_disabled)); }

/* A child in its own PID namespace cannot see whether its parent is alive. */
static void in_another_namespace(void)
{
	SDTProvider_t *provider = loaded_provider("namespace", memfd_disabled);
	int status;
	pid_t child = fork(), grandchild;

	if (child == 0) {
		if (unshare(CLONE_NEWPID) != 0) {
			providerDestroy(provider);
			_exit(2);
		}
		grandchild = fork();
		if (grandchild == 0) {
			CHECK(getpid() == 1);
			providerDestroy(provider);
			_exit(test_failures != 0);
		}
		CHECK(test_wait(grandchild));
		providerDestroy(provider);
		_exit(test_failures != 0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK(WEXITSTATUS(status) != 1);
	CHECK(access(provider->_filename, R_OK) == 0);
	providerDestroy(provider);
	if (WEXITSTATUS(status) == 2)
		SKIP("not root");
}

/* The parent ends. Its child unloads, and reports the name of the file. */
static void daemon_and_parent(int report)
{
	SDTProvider_t *provider = loaded_provider("daemon", memfd_disabled);
	pid_t parent = getpid();
	char path[64];

	if (fork() != 0)
		raise(SIGKILL);
	while (getppid() == parent) /* which is then a zombie */
		usleep(1000);
	snprintf(path, sizeof path, "%s", provider->_filename);
	CHECK(access(path, R_OK) == 0);
	providerDestroy(provider);
	CHECK(write(report, path, strlen(path)) > 0);
	_exit(0);
}

/* A child removes the file of a parent that has ended. */
static void left_by_a_parent(void)
{
	char path[64];
	int status, report[2];
	ssize_t size;
	pid_t parent;

	CHECK(pipe(report) == 0);
	parent = fork();
	if (parent == 0)
		daemon_and_parent(report[1]);
	close(report[1]);
	size = read(report[0], path, sizeof path - 1);
	CHECK(size > 0);
	CHECK(waitpid(parent, &status, 0) == parent && WIFSIGNALED(status));
	path[size > 0 ? size : 0] = '\0';
	CHECK(access(path, F_OK) == -1 && errno == ENOENT);
	close(report[0]);
}

static void *wait_for_end(void *fd)
{
	char end;

	_exit(read((int)(intptr_t)fd, &end, 1) != 1);
	return NULL;
}

/* The main thread of the parent ends, and another one lives on. */
static void parent_without_main(int end)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, wait_for_end, (void *)(intptr_t)end) == 0);
	pthread_exit(NULL);
}

static bool is_zombie(pid_t pid)
{
	char name[32], line[256] = "";
	FILE *file;

	snprintf(name, sizeof name, "/proc/%ld/stat", (long)pid);
	file = fopen(name, "re");
	if (file) {
		CHECK(fgets(line, sizeof line, file) != NULL);
		fclose(file);
	}
	return strstr(line, ") Z ") != NULL;
}

/* A child does not remove the file of a parent that has outlived its main thread. */
static void kept_for_a_parent(void)
{
	int end[2];
	pid_t parent;

	/* With its main thread, a parent loses what refers to its memory, which valgrind finds lost. */
	if (test_in_valgrind())
		return;
	CHECK(pipe(end) == 0);
	parent = fork();
	if (parent == 0) {
		SDTProvider_t *provider = loaded_provider("threads", memfd_disabled);
		char path[64];

		parent = getpid();
		if (fork() != 0)
			parent_without_main(end[0]);
		while (!is_zombie(parent))
			usleep(1000);
		snprintf(path, sizeof path, "%s", provider->_filename);
		providerDestroy(provider);
		/* The parent fails unless it is told that its file is there. */
		if (access(path, R_OK) != 0 || unlink(path) != 0)
			kill(parent, SIGKILL);
		CHECK(write(end[1], "", 1) == 1);
		_exit(0);
	}
	CHECK(test_wait(parent));
	close(end[0]);
	close(end[1]);
}

static const struct test tests[] = {
	{"in memory", in_memory},
	{"in a file", in_a_file},
	{"in another namespace", in_another_namespace},
	{"left by a parent", left_by_a_parent},
	{"kept for a parent", kept_for_a_parent},
};

TEST_MAIN("fork", tests)
