/* The directory in which the files of images are made: STAPSDT_DIR, or /tmp. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * allow_owner gives this user the permissions that the umask has removed from a directory that
 * was just made. It removes none, because another user may have moved another directory of ours to
 * the name.
 */
static void allow_owner(int directory)
{
	struct stat status;
	char name[32];

	if (fstat(directory, &status) != 0 || status.st_uid != geteuid() ||
	    (~status.st_mode & 0700) == 0)
		return;
	snprintf(name, sizeof name, "/proc/self/fd/%d", directory);
	(void)chmod(name, (status.st_mode & 07777) | 0700);
}

/*
 * sdt_open_made opens a directory that was just made, as a reference, which needs no permission.
 * Where others may write, the name can lead elsewhere at once, so it follows no link.
 */
int sdt_open_made(int at, const char *name)
{
	int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		allow_owner(fd);
	return fd;
}

/*
 * sdt_make_directory makes a directory for this user alone unless it exists, and returns 0 or the
 * reason.
 */
int sdt_make_directory(const char *directory)
{
	int fd;

	if (mkdir(directory, 0700) != 0)
		return errno == EEXIST ? 0 : errno;
	fd = sdt_open_made(AT_FDCWD, directory);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* resolve_directory creates the directory if it does not exist, and writes its absolute path. */
static bool resolve_directory(const char *directory, char path[])
{
	int reason = sdt_make_directory(directory);

	if (realpath(directory, path))
		return true;
	if (reason)
		errno = reason;
	return false;
}

/*
 * find_bad_sign returns the name of a character that makes a path unusable, or
 * NULL. dlopen expands $LIB and others.
 */
static const char *find_bad_sign(const char *path)
{
	const char *sign = strpbrk(path, ":\n$");

	if (!sign)
		return NULL;
	return *sign == ':' ? "a colon" : *sign == '\n' ? "a newline" : "a dollar sign";
}

/*
 * is_shared_directory reports whether another user could exchange a file in the
 * directory. A file that is mapped executable must not be in such a directory.
 */
static bool is_shared_directory(const struct stat *directory)
{
	if (directory->st_uid != geteuid() && directory->st_uid != 0)
		return true;
	return (directory->st_mode & (S_IWGRP | S_IWOTH)) && !(directory->st_mode & S_ISVTX);
}

static int fail_directory(SDTProvider_t *provider, const char *path)
{
	return sdt_fail(provider, tmpCreationError, "load %s: use %s: %m", provider->name, path);
}

/*
 * check_filesystem is called before any other system call for the directory, because such a call
 * could wait.
 */
static int check_filesystem(SDTProvider_t *provider, const char *path)
{
	const char *name = sdt_remote_filesystem(path);

	if (!name)
		return 0;
	return sdt_fail(provider, tmpCreationError,
			"load %s: use %s: it is on %s, where a probe that reads its file could "
			"wait or fail", provider->name, path, name);
}

static int check_directory(SDTProvider_t *provider, const char *path)
{
	const char *sign = find_bad_sign(path);
	struct stat directory;

	if (sign)
		return sdt_fail(provider, tmpCreationError,
				"load %s: the path of STAPSDT_DIR has %s, so that tracers or the "
				"loader could not find the file", provider->name, sign);
	if (check_filesystem(provider, path) != 0)
		return -1;
	if (stat(path, &directory) != 0)
		return fail_directory(provider, path);
	if (!S_ISDIR(directory.st_mode)) {
		errno = ENOTDIR;
		return fail_directory(provider, path);
	}
	if (is_shared_directory(&directory))
		return sdt_fail(provider, tmpCreationError,
				"load %s: use %s: another user could exchange the files in it",
				provider->name, path);
	return 0;
}

/*
 * sdt_directory writes the path, for which there must be PATH_MAX bytes. If
 * STAPSDT_DIR cannot be used, it fails rather than use another directory.
 */
int sdt_directory(SDTProvider_t *provider, char path[])
{
	const char *named = secure_getenv("STAPSDT_DIR");

	if (!named || !*named) {
		strcpy(path, "/tmp");
		return check_filesystem(provider, path);
	}
	if (!resolve_directory(named, path))
		return fail_directory(provider, named);
	return check_directory(provider, path);
}
