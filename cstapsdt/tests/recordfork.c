/* Tests of recordings and the processes that a recording process makes or becomes. */
#include "hold.h"
#include "recording.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char directory[] = "/dev/shm/sdtrecord-XXXXXX";
static char path[64];

static void load(void) { rec_load("recordfork"); }

/* end ends a child, which frees what it has: valgrind asks it too. */
static void end(void)
{
	providerDestroy(provider);
	_exit(test_failures != 0);
}

/* path_of writes the name of the file of a process, which is not the one that the pattern is for. */
static const char *path_of(const char *base, pid_t process)
{
	static char file[96];

	snprintf(file, sizeof file, "%s.%d", base, (int)process);
	return file;
}

/* A child records under its own name when it fires, and its own child too. */
static void children(void)
{
	pid_t child, idle;

	load();
	CHECK(sdtRecord(path, 1) == 0);
	fire_times(3);
	idle = fork();
	if (idle == 0) {
		CHECK(probeIsEnabled(probe));
		end();
	}
	CHECK(test_wait(idle));
	child = fork();
	if (child == 0) {
		pid_t grandchild;

		fire_times(50);
		grandchild = fork();
		if (grandchild == 0) {
			fire_times(7);
			rec_expect(path_of(path, getpid()), getpid(), 7);
			end();
		}
		CHECK(test_wait(grandchild));
		fire_times(50);
		end();
	}
	CHECK(test_wait(child));
	fire_times(2);
	sdtStopRecording();
	rec_expect(path_of(path, child), child, 100);
	rec_expect(path, getpid(), 5);
	CHECK(test_count(directory, "recording") == 0);
	providerDestroy(provider);
}

/* In a path, %p is the process that has the file. A child that loads a provider has one too. */
static void pattern_of_process(void)
{
	char file[96], pattern[64];
	pid_t child;

	load();
	snprintf(pattern, sizeof pattern, "%s/of%%p", directory);
	CHECK(sdtRecord(pattern, 1) == 0);
	child = fork();
	if (child == 0) {
		SDTProvider_t *other = test_provider("other");
		SDTProbe_t *late = providerAddProbe(other, "late", 0);

		CHECK(chdir("/") == 0 && providerLoad(other) == 0);
		probeFire(late);
		fire_times(1);
		providerDestroy(other);
		end();
	}
	CHECK(test_wait(child));
	sdtStopRecording();
	snprintf(file, sizeof file, "%s/of%d", directory, (int)child);
	rec_expect(file, child, 2);
	snprintf(file, sizeof file, "%s/of%d", directory, (int)getpid());
	rec_expect(file, getpid(), 0);
	providerDestroy(provider);
}

/* record_other is a child that has no part in a recording, and makes another one. */
static void record_other(void)
{
	char other[80];

	CHECK(!probeIsEnabled(probe));
	fire_times(1);
	snprintf(other, sizeof other, "%s/recording-other", directory);
	CHECK(sdtRecord(other, 1) == 0);
	fire_times(2);
	sdtStopRecording();
	rec_expect(other, getpid(), 2);
	end();
}

/* A child may end the recording that it has not begun, or begin another one. One that can begin none is idle. */
static void ended_in_a_child(void)
{
	pid_t child;

	load();
	CHECK(sdtRecord(path, 1) == 0);
	child = fork();
	if (child == 0) {
		sdtStopRecording();
		record_other();
	}
	CHECK(test_wait(child));
	child = fork();
	if (child == 0) {
		CHECK(freopen("/dev/null", "w", stderr) != NULL);
		CHECK(chmod(directory, 0777) == 0);
		fire_times(1);
		CHECK(!probeIsEnabled(probe));
		CHECK(chmod(directory, 0700) == 0);
		end();
	}
	CHECK(test_wait(child));
	sdtStopRecording();
	rec_expect(path, getpid(), 0);
	CHECK(test_count(directory, "recording") == 0);
	providerDestroy(provider);
}

static void *fire_once(void *unused)
{
	fire_times(100);
	return unused;
}

/* child_with_threads fires with several threads at once, of which one makes the file. */
static void child_with_threads(void)
{
	pthread_t all[4];

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&all[i], NULL, fire_once, NULL) == 0);
	fire_times(100);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	end();
}

/* Threads fire while their process forks, and lose nothing; nor does the child. */
static void forked_while_firing(void)
{
	struct storm storm;

	if (!FORKS_WITH_THREADS)
		return;
	load();
	CHECK(sdtRecord(path, 1) == 0);
	begin_storm(&storm, 3, NULL);
	for (int i = 0; i < 1 + test_rounds(9); i++) {
		pid_t child = fork();

		if (child == 0)
			child_with_threads();
		CHECK(test_wait(child));
		rec_expect(path_of(path, child), child, 500);
	}
	end_storm(&storm);
	sdtStopRecording();
	rec_expect(path, getpid(), atomic_load(&fired));
	providerDestroy(provider);
}

/* The child of a raw clone, which runs no handlers, leaves its parent's recording alone. */
static void raw_clone(void)
{
	long child;

	load();
	CHECK(sdtRecord(path, 1) == 0);
	fire_times(3);
	child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		fire_times(1000);
		end();
	}
	CHECK(test_wait((pid_t)child));
	fire_times(4);
	sdtStopRecording();
	rec_expect(path, getpid(), 7);
	CHECK(test_count(directory, "recording") == 0);
	providerDestroy(provider);
}

static void fire_in_handler(int unused)
{
	(void)unused;
	fire_times(1);
}

static bool raising;

static void raise_in_child(void)
{
	if (raising)
		raise(SIGUSR1);
}

/*
 * A signal that comes before the library has switched a child is handled after that, and its fire is in the child's
 * recording. This is the first test: handlers run in a child in the order of their registration.
 */
static void signal_in_new_child(void)
{
	struct sigaction action = {.sa_handler = fire_in_handler};
	sigset_t mask;
	pid_t child;

	pthread_atfork(NULL, NULL, raise_in_child);
	raising = true;
	sigaction(SIGUSR1, &action, NULL);
	load();
	CHECK(sdtRecord(path, 1) == 0);
	fire_times(3);
	child = fork();
	raising = false;
	if (child == 0) {
		CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1));
		fire_times(4);
		end();
	}
	CHECK(test_wait(child));
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1));
	providerDestroy(provider);
	sdtStopRecording();
	rec_expect(path_of(path, child), child, 5);
	rec_expect(path, getpid(), 3);
}

/* A daemon closes all descriptors. Its recording goes on, and its end closes no file of the daemon's. */
static void closed_descriptors(void)
{
	pid_t child;

	load();
	child = fork();
	if (child == 0) {
		int files[16];

		CHECK(sdtRecord(path, 1) == 0);
		fire_times(1);
		for (int fd = 3; fd < 100; fd++)
			close(fd);
		for (int i = 0; i < 16; i++)
			files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		fire_times(1);
		sdtStopRecording();
		for (int i = 0; i < 16; i++)
			CHECK(fcntl(files[i], F_GETFD) >= 0);
		rec_expect(path, getpid(), 2);
		end();
	}
	CHECK(test_wait(child));
	providerDestroy(provider);
}

/* crash forks a child that is killed when it has run, and returns its process. */
static pid_t crash(void (*run)(const char *), const char *pattern)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		run(pattern);
		raise(test_failures ? SIGTERM : SIGSTOP);
		_exit(1);
	}
	CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	return child;
}

static void fire_once_to(const char *unused)
{
	(void)unused;
	fire_times(1);
}

/* serve is a process with children of its own. */
static void serve(const char *pattern)
{
	CHECK(sdtRecord(pattern, 32 << 20) == 0);
	for (int i = 0; i < 5; i++)
		crash(fire_once_to, pattern);
	fire_times(42);
}

/* find_crash returns the number of files of the directory, and how many of them are the crash's. */
static int find_crash(int *crashes)
{
	DIR *entries = opendir(directory);
	struct dirent *entry;
	struct recording r;
	char name[320];
	int files = 0;

	*crashes = 0;
	while ((entry = readdir(entries))) {
		snprintf(name, sizeof name, "%s/%s", directory, entry->d_name);
		if (entry->d_name[0] == '.' || !rec_read(&r, name))
			continue;
		files++;
		*crashes += rec_total(&r) == 42;
		rec_free(&r);
	}
	closedir(entries);
	return files;
}

/*
 * The recording of a process that was killed outlives those of its children, and those of the children of the next process. A
 * child's recording has a sixteenth of the size.
 */
static void crash_stays(void)
{
	char pattern[64], name[96], command[96];
	struct stat status;
	int crashes;

	load();
	for (int i = 0; i < 2; i++) {
		pid_t child = 0;

		snprintf(pattern, sizeof pattern, i ? "%s/%%p.rec" : "%s/crash", directory);
		crash(serve, pattern);
		CHECK(sdtRecord(pattern, 32 << 20) == 0);
		for (int j = 0; j < 7; j++)
			child = crash(fire_once_to, pattern);
		CHECK(find_crash(&crashes) == 1 + 5 + 1); /* this one's, those that are kept, and the last child's */
		CHECK(crashes == 1);
		sdtStopRecording();
		snprintf(name, sizeof name, i ? "%s/%d.rec" : "%s/crash.%d", directory, (int)child);
		CHECK(stat(name, &status) == 0 && status.st_size >> 20 == 2);
		snprintf(command, sizeof command, "rm %s/*", directory);
		CHECK(system(command) == 0);
	}
	providerDestroy(provider);
}

enum { NOT_HERE = 77, SOON = 30 }; /* in seconds */

static void record_here(void) { CHECK(sdtRecord(path, 1) == 0); }
static void fire_here(void) { fire_times(1); }

static int descriptors; /* how many a child has that has no part in a recording */

/* unrecorded is a child of a process that has just begun, or not yet ended, to record. */
static void unrecorded(void)
{
	CHECK(test_descriptors() == descriptors);
	record_other();
}

/* fork_held forks a child while a thread is held in a call. The child has to end before the thread does. */
static int fork_held(struct hold *hold, void (*run)(void))
{
	pid_t child;

	alarm(SOON);
	if (!hold_begin(hold))
		return NOT_HERE;
	child = fork();
	if (child == 0) {
		alarm(SOON);
		run();
	}
	CHECK(test_wait(child));
	CHECK(hold_runs(hold));
	hold_end(hold);
	return (int)child;
}

static int result_of(int status)
{
	providerDestroy(provider);
	return status == NOT_HERE ? NOT_HERE : test_failures;
}

static int while_recording_begins(void)
{
	struct hold hold = {.number = SYS_fsync, .run = record_here};
	int status;

	load();
	descriptors = test_descriptors() + 1; /* that of the filter */
	status = fork_held(&hold, unrecorded);
	fire_times(3);
	sdtStopRecording();
	if (status != NOT_HERE)
		rec_expect(path, getpid(), 3);
	return result_of(status);
}

static int while_recording_ends(void)
{
	struct hold hold = {.number = SYS_munmap, .run = sdtStopRecording};
	int status;

	load();
	descriptors = test_descriptors() + 1;
	record_here();
	fire_times(3);
	status = fork_held(&hold, unrecorded);
	sdtStopRecording();
	rec_expect(path, getpid(), 3);
	return result_of(status);
}

static void fire_seven(void)
{
	fire_times(7);
	rec_expect(path_of(path, getpid()), getpid(), 7);
	end();
}

/* The first fire of a child, in another thread, makes its recording. */
static int while_a_fire_begins(void)
{
	struct hold hold = {.number = SYS_fsync, .run = fire_here};
	int status = fork_held(&hold, fire_seven);

	fire_times(3);
	sdtStopRecording();
	if (status != NOT_HERE)
		rec_expect(path_of(path, getpid()), getpid(), 4);
	return result_of(status);
}

/* A fork waits for no disk on which another thread makes or ends a recording. Of the three processes, each has its events. */
static void forks_wait_for_no_disk(void)
{
	static int (*const cases[])(void) = {while_recording_begins, while_recording_ends, while_a_fire_begins};

	if (!FORKS_WITH_THREADS || test_in_valgrind() || test_in_qemu())
		return;
	for (int i = 0; i < 3; i++) {
		if (i == 2) {
			load();
			record_here();
		}
		test_in_child(cases[i], "no seccomp");
	}
	sdtStopRecording();
	rec_expect(path, getpid(), 0);
	providerDestroy(provider);
}

static const struct test tests[] = {
	{"signal in a new child", signal_in_new_child},
	{"children", children},
	{"%p in a path", pattern_of_process},
	{"ended in a child", ended_in_a_child},
	{"forked while threads fire", forked_while_firing},
	{"raw clone", raw_clone},
	{"closed descriptors", closed_descriptors},
	{"the recording of a crash", crash_stays},
	{"forks wait for no disk", forks_wait_for_no_disk},
};

int main(void) { return rec_main("recordfork", tests, sizeof tests / sizeof tests[0], directory, path); }
