/*
 * What the thread that serves watchers does. It has descriptors of its own: a forked child does not
 * inherit them, and a daemon that closes all of its own does not close these.
 */
#include "socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
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
	ACCEPT_PAUSE = 100,   /* milliseconds, when there is no descriptor for a connection */
	LONGEST_POLL = 60000, /* milliseconds */
	SHORT_POLL = 1000     /* the same, while the process may have no other thread */
};

static struct sdt_connection *connections[SDT_CONNECTIONS];
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
static int accept_connection(const struct sdt_server *server)
{
	int fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

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
static int take_wake(const struct sdt_server *server)
{
	uint32_t sent = __atomic_load_n(&server->wakes, __ATOMIC_ACQUIRE);
	struct signalfd_siginfo info;

	if (sent == read_wakes || read(server->signals, &info, sizeof info) != sizeof info)
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
static bool serve_once(const struct sdt_server *server, int *pause)
{
	struct pollfd polled[SDT_CONNECTIONS + 2];
	int wait = time_to_wait(), used = 2, ready;

	/* One below 0 is ignored. No more are passed than are used: RLIMIT_NOFILE bounds them. */
	polled[0] = (struct pollfd){*pause ? -1 : server->listener.fd, POLLIN, 0};
	polled[1] = (struct pollfd){*pause ? -1 : server->signals, POLLIN, 0};
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
		    sdt_connection_serve(connections[i], &server->listener, polled[used++].revents))
			continue;
		sdt_connection_close(connections[i]);
		connections[i] = NULL;
	}
	*pause = polled[0].revents ? accept_connection(server) : 0;
	if (polled[1].revents && *pause == 0)
		*pause = take_wake(server);
	return ready > 0 || has_purpose();
}

static void tidy_directory(const struct sdt_server *server)
{
	tidied = sdt_monotonic();
	sdt_place_tidy(&server->listener, &server->stopping);
}

/*
 * tidy_again removes the sockets of forked children, which often end by _exit and leave theirs.
 * They do not do it themselves: if there are hundreds in a second, each would read the whole
 * directory. A socket that is new stays, so the last time is some intervals after the last fork.
 */
static void tidy_again(const struct sdt_server *server)
{
	uint64_t now = sdt_monotonic(), last = __atomic_load_n(&server->forked, __ATOMIC_RELAXED);

	if (last == 0 || now - tidied < sdt_tidy_interval || tidied > last + 3 * sdt_tidy_interval)
		return;
	tidy_directory(server);
}

/*
 * open_signals opens the descriptor of the signal, if the thread can read it: see
 * SDT_WAKING_SIGNAL.
 */
static void open_signals(struct sdt_server *server)
{
	struct signalfd_siginfo info;
	sigset_t waking;

	sigemptyset(&waking);
	sigaddset(&waking, SDT_WAKING_SIGNAL);
	server->signals = signalfd(-1, &waking, SFD_NONBLOCK | SFD_CLOEXEC);
	if (server->signals < 0)
		return;
	pthread_kill(pthread_self(), SDT_WAKING_SIGNAL);
	if (read(server->signals, &info, sizeof info) == sizeof info)
		return;
	close(server->signals);
	server->signals = -1;
}

int sdt_server_open(struct sdt_server *server, char *line)
{
	if (own_descriptors() != 0)
		return sdt_fail_line(line, "no thread can have descriptors of its own: %m");
	open_signals(server);
	tidied = sdt_monotonic();
	if (sdt_place_open(&server->listener, line) != 0)
		return -1;
	read_wakes = __atomic_load_n(&server->wakes, __ATOMIC_ACQUIRE); /* no thread sends one yet */
	return 0;
}

void sdt_server_run(struct sdt_server *server, bool tidy)
{
	int pause = 0;

	if (tidy)
		tidy_directory(server);
	longest_poll = SHORT_POLL; /* the main thread may have ended while this one began */
	while (!__atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE) && serve_once(server, &pause))
		tidy_again(server);
	for (int i = 0; i < SDT_CONNECTIONS; i++) {
		if (connections[i])
			sdt_connection_close(connections[i]);
		connections[i] = NULL;
	}
	close(server->listener.fd);
	unlink(server->listener.path);
}

void sdt_server_forget(struct sdt_server *server)
{
	for (int i = 0; i < SDT_CONNECTIONS; i++)
		connections[i] = NULL;
	sdt_connections_forget();
	*server->listener.path = '\0';
	server->listener.fd = -1;
	server->stopping = 0;
	server->forked = 0;
}
