/* The thread that serves watchers, as the others begin, wake and end it. */
#include "socket.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	STACK_BYTES = 256 << 10,
	CHILD_PAUSE = 20000000 /* nanoseconds, in which a child may execute another program */
};

/*
 * The lock guards what follows it. A fork takes the lock too, so
 * nobody waits for a thread or a file while holding it. The thread can be joined unless the state
 * is ABSENT.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum thread_state { ABSENT, BEGINNING, LISTENING, FAILED, ENDING } state;
static pthread_t thread;
/*
 * Why the process does not listen although that was requested, or "". While the thread begins, the
 * line is its own.
 */
static struct {
	const char *what;
	char line[SDT_LINE_SIZE];
} failure = {.what = ""};
static bool was_requested; /* forks are prepared then, and the lock can be taken */
static struct sdt_server server = {.listener.fd = -1, .signals = -1};

static void change_state(enum thread_state to)
{
	pthread_mutex_lock(&lock);
	state = to;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* is_child is not NULL in a forked child, which does not hurry: it may execute another program. */
static void *run_server(void *is_child)
{
	const struct timespec moment = {.tv_nsec = CHILD_PAUSE};
	bool opened;

	prctl(PR_SET_NAME, "stapsdt-socket");
	if (is_child)
		nanosleep(&moment, NULL);
	opened = sdt_server_open(&server, failure.line) == 0;
	change_state(opened ? LISTENING : FAILED);
	if (opened)
		sdt_server_run(&server, !is_child);
	return NULL;
}

/* create_thread creates the thread, in which no signal is handled. */
static int create_thread(void *is_child)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int status;

	sigfillset(&all);
	if (pthread_attr_init(&attributes) != 0)
		return -1;
	(void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	status = pthread_create(&thread, &attributes, run_server, is_child);
	if (status == EINVAL) /* what the program has for each thread is larger than the stack */
		status = pthread_create(&thread, NULL, run_server, is_child);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	errno = status;
	return status == 0 ? 0 : -1;
}

/* wake_thread wakes the thread, which listens. The lock is held. */
static void wake_thread(void)
{
	__atomic_add_fetch(&server.wakes, 1, __ATOMIC_RELEASE);
	pthread_kill(thread, SDT_WAKING_SIGNAL);
}

/*
 * The thread that lets the process listen, or that forks it, is nearly always the main thread. If
 * it ends, the process lives until its last thread has ended, which must not be the socket's
 * thread. So the end of a thread that has called notice_end wakes the socket's thread.
 */
static pthread_key_t key;
static bool has_key;

static void at_end_of_thread(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	if (state == LISTENING)
		wake_thread();
	pthread_mutex_unlock(&lock);
}

static void make_key(void) { has_key = pthread_key_create(&key, at_end_of_thread) == 0; }

static void notice_end(void)
{
	if (has_key)
		(void)pthread_setspecific(key, &key);
}

/* forget_failed forgets a thread that could not listen, and has ended or will do so at once. */
static void forget_failed(void)
{
	if (state != FAILED)
		return;
	pthread_detach(thread);
	state = ABSENT;
}

/*
 * sdt_socket_begin listens, and writes a line of error if that fails. It returns 1 if the process
 * listens already.
 */
int sdt_socket_begin(char *line)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int status = 1, cancel = sdt_cancel_hold();
	bool failed = false;
	pthread_t ended;

	pthread_once(&once, make_key);
	__atomic_store_n(&was_requested, true, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&lock);
	while (state == ENDING)
		pthread_cond_wait(&changed, &lock);
	forget_failed(); /* of a child, which nobody has told */
	if (state != ABSENT) {
		sdt_fail_line(line, "this process listens already");
		goto unlock;
	}
	__atomic_store_n(&server.stopping, 0, __ATOMIC_RELAXED);
	state = BEGINNING;
	failure.what = "listen: ";
	notice_end();
	sdt_place_prepare();
	if (create_thread(NULL) != 0) {
		status = sdt_fail_line(line, "create a thread: %m");
		state = ABSENT;
		goto unlock;
	}
	while (state == BEGINNING)
		pthread_cond_wait(&changed, &lock);
	failed = state == FAILED;
	status = failed ? -1 : 0;
	if (failed) {
		memcpy(line, failure.line, SDT_LINE_SIZE);
		ended = thread;
		state = ABSENT;
	}
unlock:
	pthread_mutex_unlock(&lock);
	if (failed)
		pthread_join(ended, NULL);
	sdt_cancel_release(cancel);
	return status;
}

/*
 * wake_and_join ends the thread. One that cannot read the signal is woken by a connection or, if
 * the socket cannot be reached any longer, ends within a minute.
 */
static void wake_and_join(void)
{
	pthread_t ending = thread;

	state = ENDING;
	__atomic_store_n(&server.stopping, 1, __ATOMIC_RELEASE);
	wake_thread();
	pthread_mutex_unlock(&lock);
	if (server.signals < 0)
		(void)sdt_place_refuses(server.listener.path);
	pthread_join(ending, NULL);
	change_state(ABSENT);
	pthread_mutex_lock(&lock);
}

/* sdt_socket_end ends all watches and the thread. */
void sdt_socket_end(void)
{
	int cancel = sdt_cancel_hold();

	pthread_mutex_lock(&lock);
	while (state == BEGINNING)
		pthread_cond_wait(&changed, &lock);
	forget_failed();
	if (state == LISTENING)
		wake_and_join();
	else
		while (state == ENDING)
			pthread_cond_wait(&changed, &lock);
	if (state == ABSENT)
		*failure.line = '\0';
	pthread_mutex_unlock(&lock);
	sdt_cancel_release(cancel);
}

/* sdt_socket_failed notes why a socket that was requested is not opened. Forks are prepared. */
void sdt_socket_failed(const char *what, const char *line)
{
	__atomic_store_n(&was_requested, true, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&lock);
	if (state == ABSENT) {
		failure.what = what;
		snprintf(failure.line, sizeof failure.line, "%s", line);
	}
	pthread_mutex_unlock(&lock);
}

size_t sdtListenPath(char *path, size_t size)
{
	const char *text = "";
	size_t length;

	if (!__atomic_load_n(&was_requested, __ATOMIC_SEQ_CST))
		return sdt_copy_text(path, size, "", "");
	pthread_mutex_lock(&lock);
	if (state == LISTENING && server.listener.pid == (uint32_t)getpid()) /* and not a raw clone */
		text = server.listener.path;
	length = sdt_copy_text(path, size, "", text);
	pthread_mutex_unlock(&lock);
	return length;
}

size_t sdtListenError(char *line, size_t size)
{
	const char *what = "", *text = "";
	size_t length;

	if (!__atomic_load_n(&was_requested, __ATOMIC_SEQ_CST))
		return sdt_copy_text(line, size, "", "");
	pthread_mutex_lock(&lock);
	if ((state == ABSENT || state == FAILED) && *failure.line) {
		what = failure.what;
		text = failure.line;
	}
	length = sdt_copy_text(line, size, what, text);
	pthread_mutex_unlock(&lock);
	return length;
}

void sdt_socket_before_fork(void) { pthread_mutex_lock(&lock); }

void sdt_socket_after_fork(void)
{
	__atomic_store_n(&server.forked, sdt_monotonic(), __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
}

/*
 * sdt_socket_forked lets a forked child listen on its own socket if its parent does. POSIX lets the
 * child of a process with threads create none, but glibc and musl do: before they call the handlers
 * of a child, both have made their locks and their list of threads those of a process with one
 * thread.
 */
void sdt_socket_forked(void)
{
	bool listens = state == LISTENING || state == BEGINNING;

	/* The thread may have been anywhere, and nothing that it had is touched here. */
	sdt_server_forget(&server);
	pthread_cond_init(&changed, NULL); /* a thread of the parent may have waited */
	state = listens ? BEGINNING : ABSENT;
	if (listens) {
		notice_end();
		failure.what = "listen: ";
		if (create_thread(&server) != 0) {
			sdt_fail_line(failure.line, "create a thread: %m");
			state = ABSENT;
		}
	}
	pthread_mutex_unlock(&lock);
}

/*
 * sdt_socket_remove removes the socket's file at the end of the process, which does not wait for
 * the thread.
 */
void sdt_socket_remove(void)
{
	if (*server.listener.path && server.listener.pid == (uint32_t)getpid())
		unlink(server.listener.path);
}
