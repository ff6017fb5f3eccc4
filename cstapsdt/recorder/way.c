/*
 * The way to the directory of a recording, and its files, which are reached by its descriptor: the
 * directory that was checked is then the one that is used, wherever its path leads by then.
 * internal/recording/recordfile does the same for Go. Nothing here allocates memory.
 */
#include "recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

enum { MAX_LINKS = 40 }; /* the number of links that the kernel follows */

/* A part of a path that was followed. */
struct way {
	int fd;                  /* the last directory */
	char at[SDT_PATH_SIZE];  /* its path without links, or "" for the root */
	char open[SDT_PATH_SIZE]; /* the last directory so far to which other users may write, or "" */
	char rest[2 * SDT_PATH_SIZE];
	int links;  /* the number of links that were followed */
	bool makes; /* the last directory if it is missing */
};

/*
 * check_owner refuses a directory in which, or a link with which, its owner could replace a
 * recording.
 */
static int check_owner(const struct stat *status, const char *path, char *line)
{
	if (status->st_uid == 0 || status->st_uid == geteuid())
		return 0;
	return sdt_fail_line(line, "%s: it belongs to user %lu, who could replace a recording", path,
			     (unsigned long)status->st_uid);
}

/* is_open reports whether other users may rename and remove the files in a directory. */
static bool is_open(const struct stat *status)
{
	return (status->st_mode & (S_IWGRP | S_IWOTH)) && !(status->st_mode & S_ISVTX);
}

static void enter(struct way *way, int fd)
{
	if (way->fd >= 0)
		close(way->fd);
	way->fd = fd;
}

/* restart returns to the root. */
static int restart(struct way *way, char *line)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return sdt_fail_line(line, "/: %m");
	enter(way, fd);
	*way->at = *way->open = '\0';
	return 0;
}

/* prepend puts a path before the rest. */
static int prepend(struct way *way, const char *path, size_t length, char *line)
{
	size_t left = strlen(way->rest);

	if (length + 1 + left >= sizeof way->rest)
		return sdt_fail_line(line, "%.64s...: the path is too long", path);
	memmove(way->rest + length + 1, way->rest, left + 1);
	memcpy(way->rest, path, length);
	way->rest[length] = '/';
	return 0;
}

/*
 * follow follows a link in the last directory. Where other users may write to a directory, they can
 * move a link of root to any name.
 */
static int follow(struct way *way, const char *next, const char *name, char *line)
{
	static char link[SDT_PATH_SIZE]; /* the lock is held, and a fire may have little stack */
	ssize_t size;

	if (*way->open)
		return sdt_fail_line(line, "%.1024s: other users may write to %.1024s, and could replace this "
					   "link: name the directory to which it leads",
				     next, way->open);
	size = readlinkat(way->fd, name, link, sizeof link);
	if (size <= 0 || size >= (ssize_t)sizeof link || ++way->links > MAX_LINKS)
		return sdt_fail_line(line, "%s: it leads nowhere", next);
	if (prepend(way, link, (size_t)size, line) != 0)
		return -1;
	return *link == '/' ? restart(way, line) : 0;
}

/*
 * open_next opens an element without following it. With O_DIRECTORY, the kernel mounts what is
 * mounted on demand.
 */
static int open_next(int at, const char *name)
{
	int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 && errno == ENOTDIR ? openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : fd;
}

/* check_local refuses a file that is on a remote file system. */
static int check_local(int fd, const char *path, char *line)
{
	const char *remote = sdt_remote_filesystem_of(fd);

	if (!remote)
		return 0;
	return sdt_fail_line(line, "%s: it is on %s, where a program that records could wait or fail", path,
			     remote);
}

/* make_next makes an element for this user alone, and opens it. */
static int make_next(int at, const char *next, const char *name, char *line)
{
	int fd = -1;

	if (check_local(at, next, line) != 0)
		return -1;
	if (mkdirat(at, name, 0700) == 0 || errno == EEXIST)
		fd = sdt_open_made(at, name);
	return fd < 0 ? sdt_fail_line(line, "%s: make it: %m", next) : fd;
}

/*
 * check_next describes an element that is open, and refuses one of another user. The last one is
 * asked for its file system first, whose server could let fstat wait.
 */
static int check_next(int fd, bool is_last, const char *next, struct stat *status, char *line)
{
	if (is_last && check_local(fd, next, line) != 0)
		return -1;
	if (fstat(fd, status) != 0)
		return sdt_fail_line(line, "%s: %m", next);
	if (status->st_uid == SDT_OVERFLOW_USER && !sdt_all_users_mapped())
		status->st_uid = 0; /* unknown; the root of a sandbox often belongs to such a user */
	return check_owner(status, next, line);
}

/* is_end reports whether the rest of a path leads no further. */
static bool is_end(const char *rest)
{
	rest += strspn(rest, "/");
	while (rest[0] == '.' && (rest[1] == '/' || rest[1] == '\0'))
		rest += 1 + strspn(rest + 1, "/");
	return *rest == '\0';
}

/* step follows an element, whose path is next. */
static int step(struct way *way, const char *next, const char *name, char *line)
{
	const bool is_last = is_end(way->rest);
	int fd = open_next(way->fd, name), failed;
	struct stat status;

	if (fd < 0 && !(way->makes && is_last && errno == ENOENT))
		return sdt_fail_line(line, "%s: %m", next);
	if (fd < 0)
		fd = make_next(way->fd, next, name, line);
	if (fd < 0)
		return -1;
	failed = check_next(fd, is_last, next, &status, line);
	if (failed || S_ISLNK(status.st_mode)) {
		close(fd);
		return failed ? failed : follow(way, next, name, line);
	}
	if (status.st_uid == 0)
		status.st_mode &= ~(mode_t)S_IWGRP;
	if (is_open(&status))
		strcpy(way->open, next);
	strcpy(way->at, next);
	enter(way, fd);
	return 0;
}

/* back returns to the parent, to which the path without links leads. */
static int back(struct way *way, char *line)
{
	const char *slash = strrchr(way->at, '/');

	if (prepend(way, way->at, slash ? (size_t)(slash - way->at) : 0, line) != 0)
		return -1;
	return restart(way, line);
}

/* advance follows the next element of the rest. */
static int advance(struct way *way, char *line)
{
	static char next[SDT_PATH_SIZE]; /* as in follow */
	const char *element = way->rest + strspn(way->rest, "/");
	size_t length = strcspn(element, "/"), used = strlen(way->at);
	const char *name = next + used + 1;

	if (used + length + 2 > sizeof next)
		return sdt_fail_line(line, "%.64s...: the path is too long", element);
	memcpy(next, way->at, used);
	next[used] = '/';
	memcpy(next + used + 1, element, length);
	next[used + 1 + length] = '\0';
	memmove(way->rest, element + length, strlen(element + length) + 1);
	if (strcmp(name, ".") == 0)
		return 0;
	return strcmp(name, "..") == 0 ? back(way, line) : step(way, next, name, line);
}

/* open_again opens a directory, in which its user may perhaps make files, but not list them. */
static int open_again(int at)
{
	struct sdt_standard standard;
	int fd;

	sdt_standard_occupy(&standard);
	fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		fd = openat(at, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return sdt_standard_release(&standard, fd);
}

/* open_last opens the directory to which the way has led, and checks it. It can be the root. */
static int open_last(const struct way *way, const char *directory, char *line)
{
	struct stat status;
	int fd, failed;

	if (check_local(way->fd, directory, line) != 0)
		return -1;
	fd = open_again(way->fd);
	if (fd < 0)
		return sdt_fail_line(line, "%s: %m", directory);
	if (fstat(fd, &status) != 0)
		failed = sdt_fail_line(line, "%s: %m", directory);
	else if (is_open(&status))
		failed = sdt_fail_line(line, "%.1024s: other users may write to it, and could replace a "
					     "recording: chmod go-w keeps them out; or record to a directory of "
					     "its own in it, such as %.1024s/rec",
				       directory, directory);
	else
		failed = check_owner(&status, directory, line);
	if (failed == 0)
		return fd;
	close(fd);
	return -1;
}

/*
 * sdt_way_open opens a directory in which no other user can replace a file. It follows the absolute
 * path one element at a time, and refuses one that another user could redirect: each directory that
 * leads to it, and each link, must belong to this user or to root. On the way, a directory of root
 * may be writable for a group that root has chosen, as /var/log is.
 *
 * Everyone may write to a directory on the way, as in a volume of Kubernetes. Its users can rename
 * what is in it, so the next directory can be another one at any time, but it cannot be theirs.
 * RATIONALE.md discusses that.
 *
 * If makes is true, the last directory is made for this user alone if it is missing, unless the
 * file system of its parent could wait.
 */
int sdt_way_open(const char *directory, bool makes, char *line)
{
	static struct way way;
	int fd = -1;

	way.fd = -1;
	way.links = 0;
	way.makes = makes;
	if (strlen(directory) >= sizeof way.rest)
		return sdt_fail_line(line, "%.64s...: the path is too long", directory);
	strcpy(way.rest, directory);
	if (restart(&way, line) != 0)
		return -1;
	while (!is_end(way.rest))
		if (advance(&way, line) != 0)
			goto done;
	fd = open_last(&way, directory, line);
done:
	close(way.fd);
	return fd;
}

/* sdt_way_name returns the last element of a path, the name of a file in an open directory. */
const char *sdt_way_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* sdt_way_rename renames a file of an open directory to a name that no other file has. */
int sdt_way_rename(int directory, const char *from, const char *to)
{
	from = sdt_way_name(from);
	to = sdt_way_name(to);
	if (syscall(SYS_renameat2, directory, from, directory, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS) /* the flag is not supported */
		return -1;
	return linkat(directory, from, directory, to, 0) == 0 ? unlinkat(directory, from, 0) : -1;
}

/* sdt_way_stat describes a file of an open directory, or a link. */
int sdt_way_stat(int directory, const char *path, struct stat *status)
{
	return fstatat(directory, sdt_way_name(path), status, AT_SYMLINK_NOFOLLOW);
}
