/*
 * The entries of a directory, for which opendir would allocate memory, and a rename that replaces
 * none of them.
 */
#include "../recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

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
 * false.
 */
void sdt_directory_visit(const char *directory, struct sdt_entries *entries, sdt_visit_fn *visit,
			 void *with)
{
	bool more = true;
	long size;
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	while (more && (size = syscall(SYS_getdents64, fd, entries->bytes, sizeof entries->bytes)) > 0)
		for (long at = 0; more && at < size;) {
			const struct entry *entry = (const void *)(entries->bytes + at);

			more = visit(with, entry->name);
			at += entry->size;
		}
	close(fd);
}

/* sdt_directory_rename renames a file to a name that no other file has. */
int sdt_directory_rename(const char *from, const char *to)
{
	if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS) /* the flag is not supported */
		return -1;
	return link(from, to) == 0 ? unlink(from) : -1;
}
