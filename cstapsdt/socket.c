/*
 * The thread that serves watchers. It has descriptors of its own: a forked child does not inherit them, and a
 * daemon that closes all of its own does not close these.
 */
#ifndef SDT_IN_GO
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
	LONGEST_POLL = 60000  /* milliseconds */
};

/* The thread, as others know it. The lock guards what follows it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum { ABSENT, BEGINNING, LISTENING, FAILED } state;
static pthread_t thread;
static char failure[SDT_LINE_SIZE];
static struct sdt_listener listener = {.fd = -1};
static uint32_t stopping;

/* What the thread has. */
static struct sdt_connection *connections[SDT_CONNECTIONS];

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
 * own_descriptors gives the thread descriptors of its own, of which there are none yet. The first three
 * lead nowhere, in case the C library writes to one.
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

/* add_connection serves a connection, unless there are too many. */
static void add_connection(int fd)
{
	struct sdt_outbox busy = {.fd = -1};
	int i = 0;

	while (i < SDT_CONNECTIONS && connections[i])
		i++;
	if (i < SDT_CONNECTIONS)
		connections[i] = sdt_connection_make(fd);
	if (i < SDT_CONNECTIONS && connections[i])
		return;
	sdt_outbox_fail(&busy, SDT_WIRE_CODE_BUSY, "too many processes are connected to it");
	(void)sdt_outbox_send(&busy, fd);
	sdt_outbox_free(&busy);
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
	uint64_t now = sdt_monotonic(), next = now + UINT64_C(1000000) * LONGEST_POLL;

	for (int i = 0; i < SDT_CONNECTIONS; i++)
		if (connections[i] && connections[i]->deadline < next)
			next = connections[i]->deadline;
	return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

/*
 * serve_once waits until something has to be done, and does it. It reports false if nothing was to be done for long,
 * and all other threads have ended: then this one keeps a process alive that would have ended.
 */
static bool serve_once(int *pause)
{
	struct pollfd polled[SDT_CONNECTIONS + 1];
	int wait = time_to_wait(), used = 1, ready;

	/* A descriptor below 0 is ignored. No more are passed than are used: RLIMIT_NOFILE bounds them. */
	polled[0] = (struct pollfd){*pause ? -1 : listener.fd, POLLIN, 0};
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
	used = 1;
	for (int i = 0; i < SDT_CONNECTIONS; i++) {
		if (!connections[i] || sdt_connection_serve(connections[i], &listener, polled[used++].revents))
			continue;
		sdt_connection_close(connections[i]);
		connections[i] = NULL;
	}
	*pause = polled[0].revents ? accept_connection() : 0;
	return ready > 0 || !sdt_is_last_thread();
}

static void serve(void)
{
	int pause = 0;

	while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE) && serve_once(&pause))
		;
	for (int i = 0; i < SDT_CONNECTIONS; i++) {
		if (connections[i])
			sdt_connection_close(connections[i]);
		connections[i] = NULL;
	}
}

static int open_listener(void)
{
	if (own_descriptors() != 0)
		return sdt_fail_line(failure, "no thread can have descriptors of its own: %m");
	return sdt_place_open(&listener, failure);
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
	pthread_mutex_lock(&lock);
	state = opened ? LISTENING : FAILED;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (!opened)
		return NULL;
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

/* sdt_socket_begin listens, and writes a line of error if that fails. It returns 1 if the process listens already. */
int sdt_socket_begin(char *line)
{
	int status = -1, cancel = sdt_cancel_hold();

	pthread_mutex_lock(&lock);
	if (state == BEGINNING || state == LISTENING) {
		sdt_fail_line(line, "this process listens already");
		status = 1;
		goto unlock;
	}
	__atomic_store_n(&stopping, 0, __ATOMIC_RELAXED);
	state = BEGINNING;
	sdt_place_prepare();
	if (create_thread(NULL) != 0) {
		sdt_fail_line(line, "create a thread: %m");
		state = ABSENT;
	}
	while (state == BEGINNING)
		pthread_cond_wait(&changed, &lock);
	if (state == LISTENING)
		status = 0;
	else if (state == FAILED) {
		pthread_join(thread, NULL);
		memcpy(line, failure, SDT_LINE_SIZE);
		state = ABSENT;
	}
unlock:
	pthread_mutex_unlock(&lock);
	sdt_cancel_release(cancel);
	return status;
}

/*
 * sdt_socket_end ends all watches and the thread. If the socket's file is gone or there is no descriptor, the
 * thread sees that within a minute.
 */
void sdt_socket_end(void)
{
	int cancel = sdt_cancel_hold();

	pthread_mutex_lock(&lock);
	while (state == BEGINNING)
		pthread_cond_wait(&changed, &lock);
	if (state == LISTENING) {
		__atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
		(void)sdt_place_refuses(listener.path); /* which wakes it */
		pthread_join(thread, NULL);
	} else if (state == FAILED)
		pthread_join(thread, NULL);
	state = ABSENT;
	pthread_mutex_unlock(&lock);
	sdt_cancel_release(cancel);
}

void sdt_socket_before_fork(void) { pthread_mutex_lock(&lock); }
void sdt_socket_after_fork(void) { pthread_mutex_unlock(&lock); }

/* sdt_socket_forked lets a forked child listen on its own socket if its parent does. */
void sdt_socket_forked(void)
{
	bool listens = state == LISTENING || state == BEGINNING;

	/* The thread may have been in the middle of anything, and nothing that it had is touched here. */
	for (int i = 0; i < SDT_CONNECTIONS; i++)
		connections[i] = NULL;
	sdt_connections_forget();
	*listener.path = '\0';
	listener.fd = -1;
	stopping = 0;
	pthread_cond_init(&changed, NULL); /* a thread of the parent may have waited */
	state = listens ? BEGINNING : ABSENT;
	pthread_mutex_unlock(&lock);
	if (listens && create_thread(&listener) != 0)
		state = ABSENT;
}

/* sdt_socket_remove removes the socket's file at the end of the process, which does not wait for the thread. */
void sdt_socket_remove(void)
{
	if (*listener.path && listener.pid == (uint32_t)getpid())
		unlink(listener.path);
}
#endif
