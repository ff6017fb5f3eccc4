/* The directory in which the files of images are made: STAPSDT_DIR, or /tmp. */
#include "private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* resolve_directory creates the directory if it does not exist, and writes its absolute path. */
static bool resolve_directory(const char *directory, char path[])
{
	int reason = 0;

	if (mkdir(directory, 0700) == 0)
		(void)chmod(directory, 0700); /* the umask may have removed some bits */
	else if (errno != EEXIST)
		reason = errno;
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
