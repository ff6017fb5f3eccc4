/*
 * Files: their beginnings, their identity, the limit of their size, and memfds. Nothing here
 * allocates memory.
 */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * sdt_file_read reads the beginning of a file, with a NUL after it, and returns its length, which
 * is 0 if that fails.
 */
size_t sdt_file_read(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = 0;

	if (fd >= 0) {
		length = read(fd, text, size - 1);
		close(fd);
	}
	if (length < 0)
		length = 0;
	text[length] = '\0';
	return (size_t)length;
}

/*
 * sdt_file_is reports whether the descriptor, which other code may have closed, still refers to the
 * file.
 */
bool sdt_file_is(int fd, dev_t dev, ino_t ino)
{
	struct stat file;

	return fd >= 0 && fstat(fd, &file) == 0 && file.st_dev == dev && file.st_ino == ino;
}

/*
 * sdt_file_limit returns the limit of the size of files (ulimit -f). A process that writes more is
 * ended by a signal.
 */
uint64_t sdt_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

/*
 * sdt_file_memory returns a memfd that can be sealed. It adds a flag, unless the kernel does not
 * know the flag.
 */
int sdt_file_memory(const char *name, unsigned flag)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | flag);

	return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

/*
 * sdt_all_users_mapped reports whether every user has a number here, so that SDT_OVERFLOW_USER is a
 * single user.
 */
bool sdt_all_users_mapped(void)
{
	static const char all[] = "         0          0 4294967295\n";
	char map[sizeof all + 1];

	return sdt_file_read("/proc/self/uid_map", map, sizeof map) == sizeof all - 1 && strcmp(map, all) == 0;
}
