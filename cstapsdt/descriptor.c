/*
 * Descriptors above those of the standard files. If the program has closed its standard files, as
 * a daemon does, the kernel gives their numbers to the next files, and what the program still
 * prints would end up there. Nothing here allocates memory.
 */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * sdt_standard_occupy makes the standard descriptors that are closed refer to a path that cannot be
 * written to, until sdt_standard_release is called. Moving a new file to a higher number would not
 * be enough: another thread could already be printing to the file. If a number cannot be occupied,
 * this is no error.
 */
void sdt_standard_occupy(struct sdt_standard *standard)
{
	standard->count = 0;
	for (int number = 0; number <= STDERR_FILENO; number++) {
		int fd = -1;

		if (fcntl(number, F_GETFD) < 0 && errno == EBADF)
			fd = open("/", O_PATH | O_CLOEXEC);
		if (fd >= 0)
			standard->held[standard->count++] = fd;
	}
}

/* is_same reports whether two descriptors refer to the same file. */
static bool is_same(int fd, int other)
{
	struct stat file;

	return fstat(fd, &file) == 0 && sdt_file_is(other, file.st_dev, file.st_ino);
}

/*
 * lift moves a descriptor that has a standard number all the same, because another thread closes
 * these files at this moment. By now, that thread may have put a file of its own there, which stays
 * open.
 */
static int lift(int fd)
{
	int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), reason = errno;

	if (lifted < 0 || is_same(fd, lifted))
		close(fd);
	errno = reason;
	return lifted;
}

/*
 * sdt_standard_release ends what sdt_standard_occupy has begun. It returns fd, the descriptor that
 * was opened in between, or -1 with errno as it is; a low one, it moves.
 */
int sdt_standard_release(const struct sdt_standard *standard, int fd)
{
	struct stat root;
	int reason;

	if (fd >= 0 && fd <= STDERR_FILENO)
		fd = lift(fd);
	if (standard->count == 0)
		return fd;
	reason = errno;
	if (stat("/", &root) == 0)
		for (int i = 0; i < standard->count; i++)
			if (sdt_file_is(standard->held[i], root.st_dev, root.st_ino))
				close(standard->held[i]);
	errno = reason;
	return fd;
}
