/* Tests of the thread that serves watchers. What it says is tested in Go, in internal/test/clibrary. */
#include "hold.h"
#include "watcher.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#if defined(__SANITIZE_THREAD__)
/*
 * The thread sanitizer takes descriptors of the same number for one, although the thread has its own. It starts
 * no thread in a forked child.
 */
SDT_API const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:accept_connection\nrace:sdt_connection_serve\nrace:sdt_connection_close\n";
}
enum { HAS_CHILDREN = 0, EXTRA_THREADS = 1 };
#else
enum { HAS_CHILDREN = 1, EXTRA_THREADS = 0 };
#endif

static void load(void) { rec_load("socket"); }

static int count_threads(void) { return test_count("/proc/self/task", "") - 2; /* . and .. */ }

/* is_masked reports whether the thread that serves has all signals blocked that can be. */
static bool is_masked(void)
{
	char path[64], line[256], name[32] = "";
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	bool masked = false;

	while (tasks && (task = readdir(tasks))) {
		FILE *file;

		snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task->d_name);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof line, file)) {
			unsigned long long blocked = 0;

			sscanf(line, "Name: %31s", name);
			if (sscanf(line, "SigBlk: %llx", &blocked) == 1 && strcmp(name, "stapsdt-socket") == 0)
				masked = (blocked | 1ULL << (SIGKILL - 1) | 1ULL << (SIGSTOP - 1) |
					  3ULL << 31) == UINT64_MAX; /* the C library keeps two */
		}
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return masked;
}

/* There is no thread unless there is a socket. It blocks all signals, and has no descriptor of the program's. */
static void thread(void)
{
	int threads = count_threads(), descriptors = test_descriptors();

	load();
	CHECK(count_threads() == threads);
	threads += EXTRA_THREADS; /* the sanitizer's own, which it starts with the first */
	CHECK(address_of(getpid()).sun_path[0] == '\0');
	listen_here();
	CHECK(count_threads() == threads + 1);
	CHECK(test_in_valgrind() || test_in_qemu() || is_masked()); /* these handle signals in every thread */
	CHECK(address_of(getpid()).sun_path[0] == '/');
	CHECK(sdtListen() == -1 && strstr(sdtError(), "listens already"));
	providerDestroy(provider);
	CHECK(test_descriptors() == descriptors);
	sdtStopListening();
	for (int tries = 0; tries < 1000 && count_threads() != threads; tries++)
		usleep(1000); /* the kernel forgets it a moment after it is joined */
	CHECK(count_threads() == threads);
	CHECK(address_of(getpid()).sun_path[0] == '\0');
	sdtStopListening();
}

/* Watches begin and end, or break off, while threads fire. A watch has what was fired in it. */
static void watches(void)
{
	struct storm storm;
	struct watcher w;

	load();
	listen_here();
	begin_storm(&storm, 3, NULL);
	for (int i = 0; i < 2 + test_rounds(18); i++) {
		uint64_t before, during;

		w = connect_to(getpid());
		watch_all(&w);
		before = atomic_load(&fired);
		usleep(2000);
		during = atomic_load(&fired) - before;
		if (i % 2 == 0) {
			end_watch(&w);
			CHECK(committed_in(&w) + 3 >= during); /* of each thread one may not be counted yet */
		}
		disconnect(&w);
	}
	end_storm(&storm);
	sdtStopListening();
	CHECK(!probeIsEnabled(probe));
	providerDestroy(provider);
}

/* Providers are loaded and destroyed while they are watched. */
static void providers(void)
{
	struct watcher w;

	listen_here();
	w = connect_to(getpid());
	watch_all(&w);
	for (uint64_t i = 0; i < 10; i++) {
		load();
		CHECK(probeIsEnabled(probe));
		fire(i);
		providerDestroy(provider);
	}
	end_watch(&w);
	CHECK(committed_in(&w) == 10);
	disconnect(&w);
	sdtStopListening();
}

static void *exit_now(void *unused)
{
	exit(0);
	return unused;
}

/* A thread calls exit while others fire and a watcher reads. The socket's file is removed. */
static void ended_by_a_thread(void)
{
	struct sockaddr_un address;
	pthread_t thread;
	pid_t child;

	if (!HAS_CHILDREN || test_in_valgrind()) /* valgrind asks a process that ends for what its threads have */
		return;
	load();
	listen_here();
	child = fork();
	if (child == 0) {
		struct storm storm;
		struct watcher w;

		for (int tries = 0; tries < 10000 && !address_of(getpid()).sun_path[0]; tries++)
			usleep(1000);
		w = connect_to(getpid());
		watch_all(&w);
		begin_storm(&storm, 1, NULL);
		usleep(1000);
		CHECK(pthread_create(&thread, NULL, exit_now, NULL) == 0);
		pause();
	}
	CHECK(test_wait(child));
	address = address_of(child);
	CHECK(address.sun_path[0] == '\0');
	sdtStopListening();
	providerDestroy(provider);
}

/* A forked child of a program that listens, and records nothing, has its parent's standard input. */
static void standard_input(void)
{
	int flags = fcntl(STDIN_FILENO, F_GETFD);
	pid_t child;

	if (!HAS_CHILDREN || test_in_valgrind()) /* a thread is lost if its process ends while it begins */
		return;
	listen_here();
	child = fork();
	if (child == 0)
		_exit(fcntl(STDIN_FILENO, F_GETFD) != flags);
	CHECK(test_wait(child));
	sdtStopListening();
}

/* However often watchers come and go, there are 10 ms between the ends of two watches. */
static void spaced_ends(void)
{
	enum { TIMES = 6 };
	struct timespec begin, end;

	load();
	listen_here();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < TIMES; i++) {
		struct watcher w = connect_to(getpid());

		watch_all(&w);
		if (i % 2 == 0)
			end_watch(&w);
		disconnect(&w);
	}
	sdtStopListening(); /* after the last end */
	clock_gettime(CLOCK_MONOTONIC, &end);
	CHECK((end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000 >= (TIMES - 1) * 10000);
	providerDestroy(provider);
}

enum { NOT_HERE = 77, SOON = 30 }; /* SOON is in seconds, and less than the thread may wait for anything */

/* The thread is woken when it is to end, even if its socket has no file, and all descriptors are closed. */
static int stop_without_file(void)
{
	alarm(SOON);
	listen_here();
	CHECK(unlink(address_of(getpid()).sun_path) == 0);
	for (int fd = 3; fd < 100; fd++)
		close(fd);
	sdtStopListening();
	listen_here();
	CHECK(address_of(getpid()).sun_path[0] == '/');
	sdtStopListening();
	return test_failures;
}

static void listen_and_stop(void)
{
	listen_here();
	sdtStopListening();
}

/* A fork does not wait for the thread, which another thread has told to end. */
static int fork_while_thread_ends(void)
{
	struct hold hold = {.number = HOLD_UNLINK, .run = listen_and_stop};
	pid_t child;

	alarm(SOON);
	if (!hold_begin(&hold)) /* the thread of the socket removes its file */
		return NOT_HERE;
	child = fork();
	if (child == 0) {
		listen_and_stop();
		_exit(test_failures);
	}
	CHECK(test_wait(child));
	CHECK(hold_runs(&hold));
	hold_end(&hold);
	return test_failures;
}

/* has_main_ended reports whether the main thread has ended, and others have not. */
static bool has_main_ended(void)
{
	char line[512] = "";
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	bool ended = read(fd, line, sizeof line - 1) > 0 && strstr(line, ") Z ");

	close(fd);
	return ended;
}

static void *outlive_main(void *unused)
{
	while (!has_main_ended())
		usleep(1000);
	return unused;
}

/* A process whose main thread has ended ends with its last thread. */
static void ended_by_the_last_thread(void)
{
	pid_t child, waited = 0;
	pthread_t thread;
	int status = 0;

	if (!HAS_CHILDREN || test_in_valgrind() || test_in_qemu())
		return;
	child = fork();
	if (child == 0) {
		listen_here();
		sleep(2); /* from then on, the thread does not look by itself */
		CHECK(pthread_create(&thread, NULL, outlive_main, NULL) == 0 && pthread_detach(thread) == 0);
		pthread_exit(NULL);
	}
	for (int tries = 0; waited == 0 && tries < SOON * 1000; tries++) {
		usleep(1000); /* no alarm would end a process in which only that thread is left */
		waited = waitpid(child, &status, WNOHANG);
	}
	CHECK(waited == child && status == 0);
	if (waited == 0) {
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		unlink(address_of(child).sun_path);
	}
}

/* A signal to the whole process that has blocked it is left to the program, which is watched meanwhile. */
static int signal_of_the_program(void)
{
	struct watcher w;
	sigset_t urgent, pending;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	CHECK(pthread_sigmask(SIG_BLOCK, &urgent, NULL) == 0);
	load();
	listen_here();
	CHECK(kill(getpid(), SIGURG) == 0);
	w = connect_to(getpid());
	watch_all(&w);
	fire_times(3);
	end_watch(&w);
	CHECK(committed_in(&w) == 3);
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGURG));
	sdtStopListening();
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGURG));
	disconnect(&w);
	providerDestroy(provider);
	return test_failures;
}

/* A process without memory for a connection says so. */
static int no_memory_for_a_connection(void)
{
	const struct rlimit none = {0, 0};
	struct sockaddr_un address;
	unsigned char answered[256];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t size;

	listen_here();
	address = address_of(getpid());
	CHECK(setrlimit(RLIMIT_AS, &none) == 0);
	CHECK(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0);
	size = recv(fd, answered, sizeof answered, 0);
	CHECK(size > 12 && rec_number(answered + 4, 4) == 8 && rec_number(answered + 8, 4) == 5);
	CHECK(size > 12 && memmem(answered, (size_t)size, "no memory", 9));
	sdtStopListening();
	return test_failures;
}

extern uint64_t sdt_tidy_interval;

/* leave_socket leaves a socket, as a process does that was killed long ago. */
static struct sockaddr_un leave_socket(void)
{
	const struct timespec then[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s/1-1.sock", directory);
	CHECK(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0);
	CHECK(utimensat(AT_FDCWD, address.sun_path, then, 0) == 0);
	close(fd);
	return address;
}

/* let_thread_run gives the thread something to do. */
static void let_thread_run(void)
{
	struct watcher w = connect_to(getpid());

	close(w.fd);
}

/* Sockets of processes that have ended are removed by a process that begins to listen and by one that forks, not by a child. */
static void tidied(void)
{
	struct sockaddr_un left;
	pid_t child;

	if (!HAS_CHILDREN)
		return;
	left = leave_socket();
	listen_here();
	let_thread_run();
	CHECK(access(left.sun_path, F_OK) != 0);
	leave_socket();
	child = fork();
	if (child == 0) {
		for (int tries = 0; tries < 10000 && !address_of(getpid()).sun_path[0]; tries++)
			usleep(1000);
		let_thread_run();
		sdtStopListening();
		_exit(access(left.sun_path, F_OK) != 0);
	}
	CHECK(test_wait(child));
	sdt_tidy_interval = 0;
	for (int tries = 0; tries < 1000 && access(left.sun_path, F_OK) == 0; tries++)
		let_thread_run();
	CHECK(access(left.sun_path, F_OK) != 0);
	sdt_tidy_interval = UINT64_C(60000000000);
	sdtStopListening();
}

/* Where no directory can be made, the error says what to do. */
static void no_directory(void)
{
	CHECK(setenv("STAPSDT_DIR", "/proc/none/stapsdt", 1) == 0);
	CHECK(sdtListen() == -1);
	CHECK(strcmp(sdtError(), "listen: /proc/none/stapsdt: No such file or directory: mount a writable volume, and let "
				 "STAPSDT_DIR name a directory in it, such as VOLUME/stapsdt") == 0);
	CHECK(setenv("STAPSDT_DIR", directory, 1) == 0);
}

/* Without /proc, no watcher would find the socket, and none is made. */
static int listen_without_proc(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
	    umount2("/proc", MNT_DETACH) != 0)
		return NOT_HERE;
	CHECK(sdtListen() == -1 && strstr(sdtError(), "mount /proc"));
	CHECK(address_of(getpid()).sun_path[0] == '\0');
	return test_failures;
}

static void run_in_child(int (*run)(void), const char *without)
{
	/* These handle signals themselves, or ask a process that ends for what its threads have. */
	if (HAS_CHILDREN && !test_in_valgrind() && !test_in_qemu())
		test_in_child(run, without);
}

static void without_file(void) { run_in_child(stop_without_file, ""); }
static void forks(void) { run_in_child(fork_while_thread_ends, "no seccomp"); }
static void no_memory(void)
{
	if (FORKS_WITH_THREADS && !EXTRA_THREADS) /* sanitizers have no memory then */
		run_in_child(no_memory_for_a_connection, "");
}

static void no_proc(void) { run_in_child(listen_without_proc, "not root"); }
static void foreign_signal(void) { run_in_child(signal_of_the_program, ""); }

static const struct test tests[] = {
	{"the thread", thread},
	{"watches while threads fire", watches},
	{"providers that come and go", providers},
	{"ends of watches", spaced_ends},
	{"standard input of a child", standard_input},
	{"sockets that are left", tidied},
	{"exit in another thread", ended_by_a_thread},
	{"stop without a file", without_file},
	{"a fork while the thread ends", forks},
	{"the last thread", ended_by_the_last_thread},
	{"no directory", no_directory},
	{"no /proc", no_proc},
	{"no memory for a connection", no_memory},
	{"a signal of the program", foreign_signal},
};

int main(void) { return watcher_main("socket", tests, sizeof tests / sizeof tests[0]); }
