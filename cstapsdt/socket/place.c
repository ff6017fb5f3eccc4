/*
 * The path of the socket: in a directory of this user, with a name that identifies the
 * process.
 */
#include "socket.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	/*
	 * The minimum age of a socket that is removed if no process listens on it: another process may
	 * just have made a younger one.
	 */
	STALE_SECONDS = 60,
	BACKLOG = 64
};

/* sdt_place_admits reports whether the other side is a process of this user, or of root. */
bool sdt_place_admits(int connection)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	if (peer.uid == SDT_OVERFLOW_USER && !sdt_all_users_mapped())
		return false;
	return peer.uid == geteuid() || peer.uid == 0;
}

/* sdt_place_socket opens a socket of the kind that watchers and tracers use. */
int sdt_place_socket(void)
{
	struct sdt_standard standard;
	int fd;

	sdt_standard_occupy(&standard);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return sdt_standard_release(&standard, fd);
}

/*
 * call_with_address calls connect or bind with the address of a path. The address has room for 107
 * bytes, so a longer path begins with a descriptor of the directory.
 */
static int call_with_address(__typeof__(&connect) call, int fd, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *name = strrchr(path, '/');
	int directory = -1, status, reason;
	char parent[PATH_MAX];

	if (strlen(path) < sizeof address.sun_path) {
		strcpy(address.sun_path, path);
	} else {
		snprintf(parent, sizeof parent, "%.*s", (int)(name - path), path);
		directory = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
		snprintf(address.sun_path, sizeof address.sun_path, "/proc/thread-self/fd/%d%.80s", directory, name);
	}
	status = call(fd, (const struct sockaddr *)&address, sizeof address);
	reason = errno;
	if (directory >= 0)
		close(directory);
	errno = reason;
	return status;
}

/* sdt_place_refuses reports whether a socket refuses connections: no process listens on it. */
bool sdt_place_refuses(const char *path)
{
	int fd = sdt_place_socket();
	bool refused = fd >= 0 && call_with_address(connect, fd, path) != 0 && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return refused;
}

/*
 * is_stale reports whether a file is a socket that no process listens on, and is not new.
 */
static bool is_stale(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) &&
	       time(NULL) - status.st_mtime >= STALE_SECONDS && sdt_place_refuses(path);
}

/* A search for stale sockets in a directory, until the flag is set. */
struct tidying {
	char directory[PATH_MAX];
	const uint32_t *stopping;
};

static bool remove_stale(void *with, const char *name)
{
	const struct tidying *tidying = with;
	size_t length = strlen(name);
	char path[PATH_MAX];

	if (length >= 5 && strcmp(name + length - 5, ".sock") == 0 &&
	    snprintf(path, sizeof path, "%s/%s", tidying->directory, name) < (int)sizeof path &&
	    is_stale(path))
		unlink(path);
	return !__atomic_load_n(tidying->stopping, __ATOMIC_RELAXED);
}

/*
 * sdt_place_tidy removes the sockets of processes that were killed, until the flag is set. It
 * allocates no memory, which would be lost in a child that is forked meanwhile.
 */
void sdt_place_tidy(const struct sdt_listener *listener, const uint32_t *stopping)
{
	int length = (int)(strrchr(listener->path, '/') - listener->path);
	struct tidying tidying = {.stopping = stopping};
	struct sdt_entries entries;

	snprintf(tidying.directory, sizeof tidying.directory, "%.*s", length, listener->path);
	sdt_directory_visit(AT_FDCWD, tidying.directory, &entries, remove_stale, &tidying);
}

/*
 * check_directory refuses a directory in which another user could replace the socket, or that does
 * not answer. reason is the error number from creating it, or 0.
 */
static int check_directory(const char *directory, int reason, char *line)
{
	const char *remote = sdt_remote_filesystem(directory);
	struct stat status;

	if (remote)
		return sdt_fail_line(line, "%s: it is on %s", directory, remote);
	if (lstat(directory, &status) != 0) {
		errno = reason ? reason : errno;
		return sdt_fail_line(line, "%s: %m", directory);
	}
	if (!S_ISDIR(status.st_mode))
		return sdt_fail_line(line, "%s: it is not a directory", directory);
	if (status.st_uid != geteuid() ||
	    (status.st_uid == SDT_OVERFLOW_USER && !sdt_all_users_mapped()))
		return sdt_fail_line(line, "%s: it is owned by user %lu", directory, (unsigned long)status.st_uid);
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return sdt_fail_line(line, "%s: another user could write to it", directory);
	return 0;
}

/*
 * add_remedy adds the remedy for a directory that cannot be used to an error line. It returns
 * -1.
 */
static int add_remedy(char *line)
{
	size_t length = strlen(line);

	snprintf(line + length, SDT_LINE_SIZE - length, "%s", ": mount a writable volume, and let STAPSDT_DIR name a directory in it, such as VOLUME/stapsdt");
	return -1;
}

/*
 * has_listener reports whether a process listens on a socket. A process that has just made the
 * socket will listen in a moment.
 */
static bool has_listener(const char *path)
{
	for (int i = 0; i < 10; i++) {
		if (!sdt_place_refuses(path))
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

/*
 * protect admits only this user to a socket, and sets the sticky bit, which protects it from
 * programs that clean directories by age (tmpfiles.d(5)): these know the sockets of their own
 * namespaces only. If the bit cannot be set, this is no reason to fail.
 */
static bool protect(const char *path)
{
	return chmod(path, 0600 | S_ISVTX) == 0 || chmod(path, 0600) == 0;
}

/*
 * bind_socket makes a socket that only this user and root can connect to, and listens. It returns 1
 * if another process listens on it.
 */
static int bind_socket(struct sdt_listener *listener, char *line)
{
	bool bound, read_only, taken = false;

	listener->fd = sdt_place_socket();
	if (listener->fd < 0)
		return sdt_fail_line(line, "open a socket: %m");
	bound = call_with_address(bind, listener->fd, listener->path) == 0;
	if (!bound && errno == EADDRINUSE) {
		taken = has_listener(listener->path);
		if (!taken) { /* this process left it before it executed this program */
			unlink(listener->path);
			bound = call_with_address(bind, listener->fd, listener->path) == 0;
		}
	}
	if (bound && protect(listener->path) && listen(listener->fd, BACKLOG) == 0)
		return 0;
	read_only = errno == EROFS;
	sdt_fail_line(line, "%s: %m", listener->path);
	if (read_only)
		add_remedy(line);
	if (bound)
		unlink(listener->path);
	close(listener->fd);
	listener->fd = -1;
	return taken ? 1 : -1;
}

/* open_in opens the socket in a directory, which it creates if it does not exist. */
static int open_in(struct sdt_listener *listener, const char *directory, char *line)
{
	int size, status = 1, reason;

	if (*directory != '/')
		return sdt_fail_line(line, "%s: it is not an absolute path", directory);
	reason = sdt_make_directory(directory);
	if (check_directory(directory, reason, line) != 0)
		return add_remedy(line);
	/*
	 * A process of another PID namespace, as in another container, may share the directory and have
	 * the same name.
	 */
	for (unsigned n = 1; status == 1 && n <= SDT_WIRE_MAX_NAMESAKES; n++) {
		size = snprintf(listener->path, sizeof listener->path, n == 1 ? "%s/%lu-%llu.sock" : "%s/%lu-%llu-%u.sock",
				directory, (unsigned long)listener->pid, (unsigned long long)listener->start, n);
		if (size < 0 || (size_t)size >= sizeof listener->path)
			return sdt_fail_line(line, "%.64s...: the path is too long", directory);
		status = bind_socket(listener, line);
	}
	return status == 0 ? 0 : -1;
}

/*
 * The values of the environment variables, or "". The thread must not read the environment, which a
 * forked child may change meanwhile.
 */
static char demanded[PATH_MAX], runtime[PATH_MAX], temporary[PATH_MAX];

static void keep_variable(char to[PATH_MAX], const char *name)
{
	const char *value = secure_getenv(name);

	snprintf(to, PATH_MAX, "%s", value ? value : "");
}

/* sdt_place_prepare is called before the thread is created that calls sdt_place_open. */
void sdt_place_prepare(void)
{
	keep_variable(demanded, "STAPSDT_DIR");
	keep_variable(runtime, "XDG_RUNTIME_DIR");
	keep_variable(temporary, "TMPDIR");
}

/*
 * sdt_place_open opens the socket of this process in the first directory that can be used:
 * $STAPSDT_DIR and no other, or stapsdt in $XDG_RUNTIME_DIR, or stapsdt-UID in $TMPDIR or /tmp.
 */
int sdt_place_open(struct sdt_listener *listener, char *line)
{
	char directory[PATH_MAX + 32];
	struct stat status;

	listener->pid = (uint32_t)getpid();
	listener->start = sdt_start_time();
	if (listener->start == 0)
		return sdt_fail_line(line, "/proc/self/stat cannot be read, but watchers find a process by its start time, which is there: mount /proc");
	if (*demanded)
		return open_in(listener, demanded, line);
	/* After sudo, the directory may belong to another user. */
	if (*runtime && stat(runtime, &status) == 0 && status.st_uid == geteuid() &&
	    snprintf(directory, sizeof directory, "%s/stapsdt", runtime) < (int)sizeof directory &&
	    open_in(listener, directory, line) == 0)
		return 0;
	snprintf(directory, sizeof directory, "%s/stapsdt-%lu",
		 *temporary ? temporary : "/tmp", (unsigned long)geteuid());
	return open_in(listener, directory, line);
}
