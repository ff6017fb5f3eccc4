/* Tests of what tells where a process records and listens, or why it does not. */
#include "hold.h"
#include "watcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char path[64];

/* A function of the header that writes a text. */
typedef size_t text_fn(char *to, size_t size);

static const struct {
	text_fn *path, *error;
} recording = {sdtRecordPath, sdtRecordError}, socket_ = {sdtListenPath, sdtListenError};

/* is_text expects a text, whatever room there is for it, and no byte after it. */
static bool is_text(text_fn *call, const char *expected)
{
	size_t length = strlen(expected), sizes[] = {0, 1, 2, length, length + 1, length + 2, 5000};
	static char text[5000 + 1];

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t size = sizes[i], copied = size > length ? length : size - (size > 0);

		memset(text, '#', sizeof text);
		if (call(text, size) != length || memcmp(text, expected, copied) != 0 ||
		    (size > 0 && text[copied]) || text[copied + (size > 0)] != '#') {
			call(text, sizeof text);
			printf("# \"%s\" instead of \"%s\", %zu bytes\n", text, expected, size);
			return false;
		}
	}
	return call(NULL, 0) == length && call(NULL, 100) == length;
}

/* is_at expects that this process records or listens at a path, and no reason why it does not. */
#define is_at(what, where) (is_text((what).path, (where)) && is_text((what).error, ""))

/* is_because expects that this process does neither, for a reason, or "" if that was not requested. */
#define is_because(what, reason) (is_text((what).path, "") && is_text((what).error, (reason)))

static const char *beside(pid_t process)
{
	static char file[96];

	snprintf(file, sizeof file, "%s.%d", path, (int)process);
	return file;
}

static const char *in(const char *name)
{
	static char file[96];

	snprintf(file, sizeof file, "%s/%s", directory, name);
	return file;
}

/* A recording has its name, relative to the directory at its beginning, until it is stopped. */
static void recorded(void)
{
	char working[200], reason[400];
	pid_t other;

	CHECK(is_because(recording, ""));
	CHECK(sdtRecord("", 0) == -1 && is_because(recording, "record: no path"));
	sdtStopRecording();
	CHECK(is_because(recording, ""));
	snprintf(reason, sizeof reason, "record to %s: the file there is not a recording", directory);
	CHECK(sdtRecord(directory, 0) == -1 && is_because(recording, reason) && strcmp(sdtError(), reason) == 0);

	CHECK(getcwd(working, sizeof working) != NULL && chdir(directory) == 0);
	CHECK(sdtRecord("of%p", 1) == 0 && chdir(working) == 0);
	snprintf(reason, sizeof reason, "%s/of%d", directory, (int)getpid());
	CHECK(is_at(recording, reason));
	CHECK(sdtRecord(path, 1) == -1 && strstr(sdtError(), "already") && is_at(recording, reason));
	sdtStopRecording();
	CHECK(is_because(recording, "") && unlink(reason) == 0);

	/* Another process has the name. */
	other = fork();
	if (other == 0) {
		CHECK(sdtRecord(path, 1) == 0 && is_at(recording, path));
		CHECK(kill(getpid(), SIGSTOP) == 0);
		_exit(test_failures);
	}
	CHECK(waitpid(other, NULL, WUNTRACED) == other);
	CHECK(sdtRecord(path, 1) == 0 && is_at(recording, beside(getpid())));
	sdtStopRecording();
	CHECK(kill(other, SIGCONT) == 0 && test_wait(other));
	CHECK(unlink(path) == 0 && unlink(beside(getpid())) == 0);
}

/* A forked child has a file when it fires, or a reason; it can stop, and has what it requests itself. */
static void recorded_by_children(void)
{
	char reason[400];
	pid_t child;

	rec_load("where");
	CHECK(sdtRecord(path, 1) == 0);
	child = fork();
	if (child == 0) {
		CHECK(is_because(recording, ""));
		fire(1);
		CHECK(is_at(recording, beside(getpid())));
		sdtStopRecording();
		CHECK(is_because(recording, "") && unlink(beside(getpid())) == 0);
		CHECK(sdtRecord(in("other"), 1) == 0 && is_at(recording, in("other")));
		providerDestroy(provider);
		_exit(test_failures || unlink(in("other")) != 0);
	}
	CHECK(test_wait(child) && is_at(recording, path));
	child = fork();
	if (child == 0) {
		CHECK(freopen("/dev/null", "w", stderr) != NULL && chmod(directory, 0777) == 0);
		fire(1);
		snprintf(reason, sizeof reason,
			 "record to %s: other users may write to it, and could replace a recording: chmod go-w keeps "
			 "them out; or record to a directory of its own in it, such as %s/rec", directory, directory);
		CHECK(is_because(recording, reason) && chmod(directory, 0700) == 0);
		child = fork();
		if (child == 0) {
			fire(1);
			CHECK(is_because(recording, reason)); /* it was requested here too */
			providerDestroy(provider);
			_exit(test_failures);
		}
		CHECK(test_wait(child));
		sdtStopRecording();
		CHECK(is_because(recording, ""));
		providerDestroy(provider);
		_exit(test_failures);
	}
	CHECK(test_wait(child) && is_at(recording, path));
	sdtStopRecording();
	CHECK(unlink(path) == 0);
	providerDestroy(provider);
}

#if !defined(__SANITIZE_THREAD__)
/* A child by a raw clone(2) records nothing, and does not listen. */
static int clone_raw(void)
{
	pid_t child;

	CHECK(sdtRecord(path, 1) == 0 && sdtListen() == 0);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		_exit(sdtRecordPath(NULL, 0) != 0 || sdtListenPath(NULL, 0) != 0);
	CHECK(test_wait(child));
	sdtStopListening();
	sdtStopRecording();
	CHECK(unlink(path) == 0);
	return test_failures;
}
#endif

static void listened(void)
{
	char reason[400];

	CHECK(is_because(socket_, ""));
	CHECK(setenv("STAPSDT_DIR", "/proc/none", 1) == 0 && sdtListen() == -1);
	snprintf(reason, sizeof reason, "%s", sdtError());
	CHECK(strncmp(reason, "listen: /proc/none: ", 20) == 0 && is_because(socket_, reason));
	CHECK(setenv("STAPSDT_DIR", directory, 1) == 0 && sdtListen() == 0);
	CHECK(is_at(socket_, address_of(getpid()).sun_path));
	CHECK(sdtListen() == -1 && is_at(socket_, address_of(getpid()).sun_path));
	sdtStopListening();
	CHECK(is_because(socket_, ""));
	CHECK(setenv("STAPSDT_DIR", "/proc/none", 1) == 0 && sdtListen() == -1 && is_because(socket_, reason));
	sdtStopListening();
	CHECK(is_because(socket_, "") && setenv("STAPSDT_DIR", directory, 1) == 0);
}

/* wait_for_text waits until a function has a text. */
static bool wait_for_text(text_fn *call)
{
	for (int tries = 0; tries < 10000 && call(NULL, 0) == 0; tries++)
		usleep(1000);
	return call(NULL, 0) > 0;
}

/* A forked child has its own socket after a moment, or a reason, which no line on standard error gives. */
static int listened_by_children(void)
{
	char parent[108], reason[400];
	pid_t child;

	CHECK(sdtListen() == 0 && sdtListenPath(parent, sizeof parent) > 0);
	child = fork();
	if (child == 0) {
		CHECK(sdtListenError(NULL, 0) == 0);
		CHECK(wait_for_text(sdtListenPath) && is_at(socket_, address_of(getpid()).sun_path));
		sdtStopListening();
		_exit(test_failures);
	}
	CHECK(test_wait(child) && is_at(socket_, parent));
	CHECK(chmod(directory, 0777) == 0);
	child = fork();
	if (child == 0) {
		snprintf(reason, sizeof reason,
			 "listen: %s: another user could write to it: mount a writable volume, and let STAPSDT_DIR name a "
			 "directory in it, such as VOLUME/stapsdt", directory);
		CHECK(wait_for_text(sdtListenError) && is_because(socket_, reason));
		sdtStopListening();
		CHECK(is_because(socket_, ""));
		_exit(test_failures);
	}
	CHECK(test_wait(child) && is_at(socket_, parent));
	CHECK(chmod(directory, 0700) == 0);
	sdtStopListening();
	return test_failures;
}

/* The environment is obeyed by the first load, and the program takes precedence. */
static int by_environment(void)
{
	CHECK(setenv("STAPSDT_RECORD", path, 1) == 0 && setenv("STAPSDT_SOCKET", "1", 1) == 0);
	CHECK(is_because(recording, "") && is_because(socket_, ""));
	rec_load("where");
	CHECK(is_at(recording, path) && is_at(socket_, address_of(getpid()).sun_path));
	CHECK(sdtRecord(in("other"), 1) == 0 && sdtListen() == 0);
	CHECK(is_at(recording, in("other")) && is_at(socket_, address_of(getpid()).sun_path));
	sdtStopListening();
	sdtStopRecording();
	CHECK(is_because(recording, "") && is_because(socket_, ""));
	CHECK(unlink(path) == 0 && unlink(in("other")) == 0);
	providerDestroy(provider);
	return test_failures;
}

static int refused_to_environment(void)
{
	CHECK(freopen("/dev/null", "w", stderr) != NULL);
	CHECK(setenv("STAPSDT_RECORD", "yes", 1) == 0 && setenv("STAPSDT_SOCKET", "yes", 1) == 0);
	rec_load("where");
	CHECK(is_because(recording, "STAPSDT_RECORD=yes: it must be FILE or FILE,SIZE, with a SIZE from 256K to 1G"));
	CHECK(is_because(socket_, "STAPSDT_SOCKET=yes: it must be 1 to listen, or 0"));
	CHECK(sdtRecord(path, 1) == 0 && is_at(recording, path));
	CHECK(sdtListen() == 0 && is_at(socket_, address_of(getpid()).sun_path));
	sdtStopListening();
	sdtStopRecording();
	CHECK(is_because(recording, "") && is_because(socket_, "") && unlink(path) == 0);
	providerDestroy(provider);
	return test_failures;
}

static atomic_bool stopped;
static char first[96], second[96];

/* ask_always asks while another thread records and listens: a path is one of those that were requested. */
static void *ask_always(void *unused)
{
	char text[5000];

	while (!atomic_load(&stopped)) {
		size_t length = sdtRecordPath(text, sizeof text);

		CHECK(length == strlen(text));
		CHECK(!*text || strcmp(text, first) == 0 || strcmp(text, second) == 0);
		length = sdtListenPath(text, sizeof text);
		CHECK(length == strlen(text));
		CHECK(!*text || (strncmp(text, directory, strlen(directory)) == 0 && strstr(text, ".sock")));
		sdtRecordError(text, sizeof text);
		CHECK(!*text || strcmp(text, "record: no path") == 0);
		CHECK(sdtListenError(NULL, 0) == 0);
	}
	return unused;
}

static void by_threads(void)
{
	pthread_t threads[2];

	snprintf(first, sizeof first, "%s/first", directory);
	snprintf(second, sizeof second, "%s/the-second-one", directory);
	atomic_store(&stopped, false);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, ask_always, NULL) == 0);
	for (int i = 0; i < test_rounds(50); i++) {
		CHECK(sdtRecord(i % 2 ? first : second, 1) == 0);
		CHECK(sdtListen() == 0);
		sdtStopRecording();
		sdtStopListening();
		CHECK(unlink(i % 2 ? first : second) == 0);
		CHECK(sdtRecord(NULL, 0) == -1);
	}
	atomic_store(&stopped, true);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	sdtStopRecording();
}

static void record_slowly(void) { CHECK(sdtRecord(path, 1) == 0); }

/* A child that is forked while another thread makes a recording can ask, and does not record. */
static int fork_meanwhile(void)
{
	struct hold hold = {.number = SYS_fsync, .run = record_slowly};
	pid_t child;

	if (!hold_begin(&hold))
		return 77;
	child = fork();
	if (child == 0) {
		CHECK(is_because(recording, "") && is_because(socket_, ""));
		_exit(test_failures);
	}
	CHECK(test_wait(child) && hold_runs(&hold));
	hold_end(&hold);
	CHECK(is_at(recording, path));
	sdtStopRecording();
	CHECK(unlink(path) == 0);
	return test_failures;
}

static void run_in_child(int (*run)(void), const char *without)
{
	/* A thread of valgrind's is lost if its process ends while it begins. The sanitizer starts none in a child. */
#if defined(__SANITIZE_THREAD__)
	(void)run;
	(void)without;
#else
	if (!test_in_valgrind() && !test_in_qemu())
		test_in_child(run, without);
#endif
}

static void listening_children(void) { run_in_child(listened_by_children, ""); }
static void environment(void) { run_in_child(by_environment, ""); }
static void refused(void) { run_in_child(refused_to_environment, ""); }
static void meanwhile(void) { run_in_child(fork_meanwhile, "no seccomp"); }

static void raw_child(void)
{
#if !defined(__SANITIZE_THREAD__)
	run_in_child(clone_raw, "");
#endif
}

static const struct test tests[] = {
	{"by the environment", environment}, /* in children of a process that has requested nothing */
	{"refused to the environment", refused},
	{"a fork meanwhile", meanwhile},
	{"a recording", recorded},
	{"recordings of children", recorded_by_children},
	{"a socket", listened},
	{"sockets of children", listening_children},
	{"a raw clone", raw_child},
	{"asked by threads", by_threads},
};

int main(void)
{
	int status;

	if (!mkdtemp(directory) || setenv("STAPSDT_DIR", directory, 1) != 0)
		return 1;
	snprintf(path, sizeof path, "%s/recording", directory);
	status = test_main("where", tests, sizeof tests / sizeof tests[0]);
	if (rmdir(directory) != 0)
		printf("# %s is left\n", directory);
	return status;
}
