/* The home of an image, where the loader and tracers find it: a memfd or a file. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel's limit of 255 includes its prefix "memfd:". */
#define MEMFD_NAME_MAX 249
#define MFD_EXECUTABLE 0x10 /* MFD_EXEC, since Linux 6.3 and the glibc of 2023 */

/* A pattern for mkostemps, from the directory and the provider. */
#define SUFFIX ".so"
#define PATTERN "%s/%s-XXXXXX" SUFFIX

static char *make_pattern(const char *directory, const char *name)
{
	int size = snprintf(NULL, 0, PATTERN, directory, name);
	char *path = size < 0 ? NULL : malloc((size_t)size + 1);

	if (path)
		snprintf(path, (size_t)size + 1, PATTERN, directory, name);
	return path;
}

enum {
	PID_SIZE = 16,             /* of a PID as text */
	DESCRIPTOR_PATH_SIZE = 48, /* of /proc/PID/fd/N */
	FILL_TRIES = 3             /* other code keeps writing to the image */
};

/*
 * descriptor_path returns /proc/PID/fd/N. A debugger opens the path that the loader
 * opened. There, /proc/self would be the debugger itself, and its descriptor N may be a
 * pipe that it would read forever. The PID comes from the link /proc/self, because in
 * this mount of /proc the number that getpid returns may belong to another process or to
 * none.
 */
static char *descriptor_path(int fd)
{
	char self[PID_SIZE], *path = malloc(DESCRIPTOR_PATH_SIZE);
	ssize_t size = readlink("/proc/self", self, sizeof self - 1);

	if (size <= 0)
		size = snprintf(self, sizeof self, "self");
	self[size] = '\0';
	if (path)
		snprintf(path, DESCRIPTOR_PATH_SIZE, "/proc/%s/fd/%d", self, fd);
	return path;
}

/* create_memfd creates a memfd. */
static int create_memfd(const char *name)
{
	struct sdt_standard standard;

	sdt_standard_occupy(&standard);
	return sdt_standard_release(&standard, sdt_file_memory(name, MFD_EXECUTABLE));
}

/* create_file leaves *path NULL if it fails. */
static int create_file(const char *directory, const char *name, char **path)
{
	struct sdt_standard standard;
	int made = -1, fd = -1, reason;

	*path = make_pattern(directory, name);
	if (*path) {
		sdt_standard_occupy(&standard);
		made = mkostemps(*path, (int)strlen(SUFFIX), O_CLOEXEC);
		fd = sdt_standard_release(&standard, made);
	}
	if (fd >= 0) {
		/* so that programs that clean by age (tmpfiles.d(5)) leave it */
		(void)fchmod(fd, 0600 | S_ISVTX);
		return fd;
	}
	reason = errno;
	if (made >= 0)
		unlink(*path);
	free(*path);
	*path = NULL;
	errno = reason;
	return -1;
}

static int open_memfd(SDTProvider_t *provider, struct sdt_home *home)
{
	if (strlen(provider->name) > MEMFD_NAME_MAX)
		return sdt_fail(provider, tmpCreationError,
				"load %s: the name is longer than the %d bytes of a memfd's name",
				provider->name, MEMFD_NAME_MAX);
	home->fd = create_memfd(provider->name);
	if (home->fd < 0)
		return sdt_fail(provider, tmpCreationError, "load %s: create a memfd: %m",
				provider->name);
	home->path = descriptor_path(home->fd);
	if (home->path)
		return 0;
	close(home->fd);
	return sdt_fail(provider, tmpCreationError, "load %s: out of memory", provider->name);
}

/* sdt_home_renumber moves the memfd to a higher descriptor, which has another path. */
bool sdt_home_renumber(struct sdt_home *home)
{
	int fd = fcntl(home->fd, F_DUPFD_CLOEXEC, home->fd + 1);
	char *path = fd < 0 ? NULL : descriptor_path(fd);

	if (!path) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	close(home->fd);
	free(home->path);
	home->fd = fd;
	home->path = path;
	return true;
}

static int open_file(SDTProvider_t *provider, struct sdt_home *home)
{
	char directory[PATH_MAX];

	if (sdt_directory(provider, directory) != 0)
		return -1;
	home->fd = create_file(directory, provider->name, &home->path);
	if (home->fd >= 0)
		return 0;
	return sdt_fail(provider, tmpCreationError, "load %s: create " PATTERN ": %m",
			provider->name, directory, provider->name);
}

/* sdt_home_discard removes the home of an image that is not loaded. */
void sdt_home_discard(struct sdt_home *home)
{
	if (home->path && !home->in_memory)
		unlink(home->path);
	close(home->fd);
	free(home->path);
	home->path = NULL;
}

/*
 * write_file_bytes replaces the contents of the file by the bytes, and does not use its position.
 */
static bool write_file_bytes(int fd, const unsigned char *bytes, size_t size)
{
	if (size > sdt_file_limit()) {
		errno = EFBIG;
		return false;
	}
	for (size_t at = 0; at < size;) {
		ssize_t n = pwrite(fd, bytes + at, size - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return ftruncate(fd, (off_t)size) == 0;
}

/* holds_bytes reports whether the file holds exactly the bytes. */
static bool holds_bytes(int fd, const unsigned char *bytes, size_t size)
{
	unsigned char part[4096];
	struct stat file;
	size_t at = 0;

	if (fstat(fd, &file) != 0 || file.st_size != (off_t)size)
		return false;
	while (at < size) {
		ssize_t n = pread(fd, part, sizeof part, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || (size_t)n > size - at || memcmp(part, bytes + at, (size_t)n) != 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/*
 * fill_home writes the image and reads it back. In between it seals a memfd, so that
 * its contents remain those that were compared. If the system has no seals, the memfd
 * is not sealed.
 */
static int fill_home(SDTProvider_t *provider, struct sdt_home *home,
		     const struct sdt_image *image, bool *filled)
{
	struct stat file;

	if (fstat(home->fd, &file) != 0 || !write_file_bytes(home->fd, image->bytes, image->size))
		return sdt_fail(provider, tmpCreationError, "load %s: write %s: %m",
				provider->name, home->path);
	home->dev = file.st_dev;
	home->ino = file.st_ino;
	if (home->in_memory)
		(void)fcntl(home->fd, F_ADD_SEALS,
			    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	*filled = holds_bytes(home->fd, image->bytes, image->size);
	return 0;
}

/*
 * sdt_home_make writes the image to a memfd or a file, as the provider has chosen, and
 * leaves it open.
 */
int sdt_home_make(SDTProvider_t *provider, const struct sdt_image *image, struct sdt_home *home)
{
	*home = (struct sdt_home){.in_memory = provider->_use_memfd == memfd_enabled};
	for (int tries = 0; tries < FILL_TRIES; tries++) {
		bool filled = false;
		int status;

		if ((home->in_memory ? open_memfd : open_file)(provider, home) != 0)
			return -1;
		status = fill_home(provider, home, image, &filled);
		if (status == 0 && filled)
			return 0;
		sdt_home_discard(home);
		if (status != 0)
			return -1;
	}
	return sdt_fail(provider, tmpCreationError,
			"load %s: other code writes to the file or memfd of the image",
			provider->name);
}
