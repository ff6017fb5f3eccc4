/*
 * The thread that serves watchers. It has descriptors of its own: a forked child does not inherit
 * them, and a daemon that closes all of its own does not close these.
 */
#include "socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE_DESCRIPTORS 2 /* CLOSE_RANGE_UNSHARE, since Linux 5.9 */

enum {
	STACK_BYTES = 256 << 10,
	ACCEPT_PAUSE = 100,   /* milliseconds, when there is no descriptor for a connection */
	CHILD_PAUSE = 20000000, /* nanoseconds, in which a child may execute another program */
	LONGEST_POLL = 60000, /* milliseconds */
	SHORT_POLL = 1000     /* the same, while the process may have no other thread */
};

/*
 * The signal that wakes the thread. All signals are blocked in the thread, which reads this one
 * from a descriptor: so it can be woken without a file, without /proc, and without a descriptor of
 * the program's. By default, nothing happens to a process that gets it.
 */
#define WAKING_SIGNAL SIGURG

/*
 * The thread, as others know it. The lock guards what follows it. A fork takes the lock too, so
 * nobody waits for a thread or a file while holding it. The thread can be joined unless the state
 * is ABSENT.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum { ABSENT, BEGINNING, LISTENING, FAILED, ENDING } state;
static pthread_t thread;
static char failure[SDT_LINE_SIZE];
static struct sdt_listener listener = {.fd = -1};
static uint32_t stopping, wakes; /* wakes counts the signals that were sent to the thread */
static uint64_t forked; /* when the process was last forked, or 0 */

/* What the thread has. */
static struct sdt_connection *connections[SDT_CONNECTIONS];
static int signals = -1;
static uint32_t read_wakes;
static int longest_poll;
static uint64_t tidied; /* when the directory was last tidied */

uint64_t sdt_tidy_interval = UINT64_C(60000000000);

static void close_all_descriptors(void)
{
	DIR *entries = opendir("/proc/thread-self/fd");
	struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd != dirfd(entries))
			close(fd);
	}
	if (entries)
		closedir(entries);
}

/*
 * own_descriptors gives the thread descriptors of its own, of which there are none yet. The first
 * three lead nowhere, in case the C library writes to one.
 */
static int own_descriptors(void)
{
	if (syscall(SYS_close_range, 0U, ~0U, UNSHARE_DESCRIPTORS) != 0) {
		if (unshare(CLONE_FILES) != 0)
			return -1;
		close_all_descriptors();
	}
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		(void)open("/dev/null", O_RDWR | O_CLOEXEC);
	return 0;
}

/* add_connection serves a connection, unless there are too many, or there is no memory. */
static void add_connection(int fd)
{
	static unsigned char room[512]; /* for a refusal: there may be no memory for that either */
	struct sdt_outbox refusal = {.data = room, .capacity = sizeof room, .fd = -1};
	int i = 0;

	while (i < SDT_CONNECTIONS && connections[i])
		i++;
	if (i == SDT_CONNECTIONS)
		sdt_outbox_fail(&refusal, SDT_WIRE_CODE_BUSY, "too many processes are connected to it");
	else if ((connections[i] = sdt_connection_make(fd)))
		return;
	else
		sdt_outbox_fail(&refusal, SDT_WIRE_CODE_MEMORY, "it has no memory for another connection");
	(void)sdt_outbox_send(&refusal, fd);
	close(fd);
}

/* accept_connection returns how many milliseconds to wait until the next try. */
static int accept_connection(void)
{
	int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR ? 0 : ACCEPT_PAUSE;
	if (sdt_place_admits(fd))
		add_connection(fd);
	else
		close(fd);
	return 0;
}

/* time_to_wait returns for how many milliseconds nothing has to be done. */
static int time_to_wait(void)
{
	uint64_t now = sdt_monotonic(), next = now + UINT64_C(1000000) * (uint64_t)longest_poll;

	for (int i = 0; i < SDT_CONNECTIONS; i++)
		if (connections[i] && connections[i]->deadline < next)
			next = connections[i]->deadline;
	return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

/*
 * take_wake reads the signal that has woken the thread. One that was sent to the process, which
 * blocks it in all threads, looks the same, and is left to the program. take_wake returns how many
 * milliseconds to wait until the next look.
 */
static int take_wake(void)
{
	uint32_t sent = __atomic_load_n(&wakes, __ATOMIC_ACQUIRE);
	struct signalfd_siginfo info;

	if (sent == read_wakes || read(signals, &info, sizeof info) != sizeof info)
		return ACCEPT_PAUSE;
	read_wakes = sent;
	longest_poll = SHORT_POLL; /* a thread ends, which may be the main thread */
	return 0;
}

/*
 * has_purpose is called when nothing was to be done for long. It reports false if all other threads
 * have ended: then this one keeps a process alive that would have ended.
 */
static bool has_purpose(void)
{
	unsigned long left = sdt_threads_after_main("self");

	longest_poll = left ? SHORT_POLL : LONGEST_POLL;
	return left != 1;
}

/* serve_once waits until there is something to do, and does it. It reports false at the end. */
static bool serve_once(int *pause)
{
	struct pollfd polled[SDT_CONNECTIONS + 2];
	int wait = time_to_wait(), used = 2, ready;

	/* One below 0 is ignored. No more are passed than are used: RLIMIT_NOFILE bounds them. */
	polled[0] = (struct pollfd){*pause ? -1 : listener.fd, POLLIN, 0};
	polled[1] = (struct pollfd){*pause ? -1 : signals, POLLIN, 0};
	for (int i = 0; i < SDT_CONNECTIONS; i++) {
		const struct sdt_connection *c = connections[i];

		if (c)
			polled[used++] = (struct pollfd){c->fd, c->outbox.size > 0 ? POLLOUT : POLLIN, 0};
	}
	if (*pause && *pause < wait)
		wait = *pause;
	ready = poll(polled, (nfds_t)used, wait);
	if (ready < 0) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000 * ACCEPT_PAUSE}, NULL);
		return true;
	}
	used = 2;
	for (int i = 0; i < SDT_CONNECTIONS; i++) {
		if (!connections[i] ||
		    sdt_connection_serve(connections[i], &listener, polled[used++].revents))
			continue;
		sdt_connection_close(connections[i]);
		connections[i] = NULL;
	}
	*pause = polled[0].revents ? accept_connection() : 0;
	if (polled[1].revents && *pause == 0)
		*pause = take_wake();
	return ready > 0 || has_purpose();
}

static void tidy(void)
{
	tidied = sdt_monotonic();
	sdt_place_tidy(&listener, &stopping);
}

/*
 * tidy_again removes the sockets of forked children, which often end by _exit and leave theirs.
 * They do not do it themselves: if there are hundreds in a second, each would read the whole
 * directory. A socket that is new stays, so the last time is some intervals after the last fork.
 */
static void tidy_again(void)
{
	uint64_t now = sdt_monotonic(), last = __atomic_load_n(&forked, __ATOMIC_RELAXED);

	if (last == 0 || now - tidied < sdt_tidy_interval || tidied > last + 3 * sdt_tidy_interval)
		return;
	tidy();
}

static void serve(void)
{
	int pause = 0;

	longest_poll = SHORT_POLL; /* the main thread may have ended while this one began */
	while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE) && serve_once(&pause))
		tidy_again();
	for (int i = 0; i < SDT_CONNECTIONS; i++) {
		if (connections[i])
			sdt_connection_close(connections[i]);
		connections[i] = NULL;
	}
}

/* open_signals opens the descriptor of the signal, if the thread can read it: see wake_and_join. */
static void open_signals(void)
{
	struct signalfd_siginfo info;
	sigset_t waking;

	sigemptyset(&waking);
	sigaddset(&waking, WAKING_SIGNAL);
	signals = signalfd(-1, &waking, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals < 0)
		return;
	pthread_kill(pthread_self(), WAKING_SIGNAL);
	if (read(signals, &info, sizeof info) == sizeof info)
		return;
	close(signals);
	signals = -1;
}

static int open_listener(void)
{
	if (own_descriptors() != 0)
		return sdt_fail_line(failure, "no thread can have descriptors of its own: %m");
	open_signals();
	tidied = sdt_monotonic();
	return sdt_place_open(&listener, failure);
}

static void change_state(int to)
{
	pthread_mutex_lock(&lock);
	state = to;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* is_child is not NULL in a forked child, which does not hurry: it may execute another program. */
static void *run(void *is_child)
{
	const struct timespec moment = {.tv_nsec = CHILD_PAUSE};
	bool opened;

	prctl(PR_SET_NAME, "stapsdt-socket");
	if (is_child)
		nanosleep(&moment, NULL);
	opened = open_listener() == 0;
	read_wakes = __atomic_load_n(&wakes, __ATOMIC_ACQUIRE); /* no thread sends one yet */
	change_state(opened ? LISTENING : FAILED);
	if (!opened)
		return NULL;
	if (!is_child)
		tidy();
	serve();
	close(listener.fd);
	unlink(listener.path);
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
	status = pthread_create(&thread, &attributes, run, is_child);
	if (status == EINVAL) /* what the program has for each thread is larger than the stack */
		status = pthread_create(&thread, NULL, run, is_child);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	errno = status;
	return status == 0 ? 0 : -1;
}

/* wake wakes the thread, which listens. The lock is held. */
static void wake(void)
{
	__atomic_add_fetch(&wakes, 1, __ATOMIC_RELEASE);
	pthread_kill(thread, WAKING_SIGNAL);
}

/*
 * What has let the process listen, or has forked it, is nearly always the main thread. If that
 * ends, the process lives until its last thread has ended, which must not be the one of the socket.
 * So the end of a thread that has called notice_end wakes that one.
 */
static pthread_key_t key;
static bool has_key;

static void at_end_of_thread(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	if (state == LISTENING)
		wake();
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
	pthread_mutex_lock(&lock);
	while (state == ENDING)
		pthread_cond_wait(&changed, &lock);
	forget_failed(); /* of a child, which nobody has told */
	if (state != ABSENT) {
		sdt_fail_line(line, "this process listens already");
		goto unlock;
	}
	__atomic_store_n(&stopping, 0, __ATOMIC_RELAXED);
	state = BEGINNING;
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
		memcpy(line, failure, SDT_LINE_SIZE);
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
	__atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
	wake();
	pthread_mutex_unlock(&lock);
	if (signals < 0)
		(void)sdt_place_refuses(listener.path);
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
	pthread_mutex_unlock(&lock);
	sdt_cancel_release(cancel);
}

void sdt_socket_before_fork(void) { pthread_mutex_lock(&lock); }

void sdt_socket_after_fork(void)
{
	__atomic_store_n(&forked, sdt_monotonic(), __ATOMIC_RELAXED);
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
	for (int i = 0; i < SDT_CONNECTIONS; i++)
		connections[i] = NULL;
	sdt_connections_forget();
	*listener.path = '\0';
	listener.fd = -1;
	stopping = 0;
	forked = 0;
	pthread_cond_init(&changed, NULL); /* a thread of the parent may have waited */
	state = listens ? BEGINNING : ABSENT;
	if (listens) {
		notice_end();
		if (create_thread(&listener) != 0)
			state = ABSENT;
	}
	pthread_mutex_unlock(&lock);
}

/*
 * sdt_socket_remove removes the socket's file at the end of the process, which does not wait for
 * the thread.
 */
void sdt_socket_remove(void)
{
	if (*listener.path && listener.pid == (uint32_t)getpid())
		unlink(listener.path);
}
