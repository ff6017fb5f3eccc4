/* The entries of a directory, for which opendir would allocate memory. */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What getdents64 returns. */
struct entry {
	uint64_t ino;
	int64_t offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

/*
 * sdt_directory_visit calls a function with the name of each entry of a directory, until it returns
 * false. A relative path begins in the open directory at.
 */
void sdt_directory_visit(int at, const char *directory, struct sdt_entries *entries,
			 sdt_visit_fn *visit, void *with)
{
	bool more = true;
	long size;
	int fd = openat(at, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	while (more && (size = syscall(SYS_getdents64, fd, entries->bytes, sizeof entries->bytes)) > 0)
		for (long offset = 0; more && offset < size;) {
			const struct entry *entry = (const void *)(entries->bytes + offset);

			more = visit(with, entry->name);
			offset += entry->size;
		}
	close(fd);
}
