/* The repair of images in a forked child, which must not fire before it. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * While a nop of five or ten bytes is traced, it is a call to a trampoline that the
 * kernel has mapped into the process. A child inherits the call, but not always the
 * trampoline: with Linux 6.18 it does not, and the child's next fire jumps to an
 * address at which nothing is mapped. Therefore the child maps its images again, and
 * the kernel then attaches the tracers that trace the child too.
 */
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sdt_mapping *mappings;

static void before_fork(void)
{
	pthread_mutex_lock(&mappings_lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&mappings_lock);
}

static bool map_file(const struct sdt_mapping *mapping, int fd)
{
	return sdt_file_is(fd, mapping->dev, mapping->ino) &&
	       mmap(mapping->start, mapping->size, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_FIXED, fd, (off_t)mapping->offset) != MAP_FAILED;
}

/*
 * renew_mapping calls only functions that a signal handler may call, as the child of
 * a program with several threads must. If the file is gone, it drops the pages that
 * the kernel has written to, so that they read as the file does. The child is not
 * traced then, but it is safe.
 */
static void renew_mapping(const struct sdt_mapping *mapping)
{
	bool renewed;
	int fd;

	if (map_file(mapping, mapping->memfd))
		return;
	fd = open(mapping->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	renewed = map_file(mapping, fd);
	if (fd >= 0)
		close(fd);
	if (!renewed)
		(void)madvise(mapping->start, mapping->size, MADV_DONTNEED);
}

static void after_fork_in_child(void)
{
	int reason = errno;

	for (const struct sdt_mapping *mapping = mappings; mapping; mapping = mapping->next)
		renew_mapping(mapping);
	pthread_mutex_unlock(&mappings_lock);
	errno = reason;
}

static int handlers_error;

static void install_handlers(void)
{
	handlers_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/*
 * sdt_fork_guard makes each forked child renew the mapping, until sdt_fork_release is
 * called. The child opens the file by the path, unless mapping->memfd is its
 * descriptor. sdt_fork_guard returns NULL if memory is short.
 */
struct sdt_mapping *sdt_fork_guard(const struct sdt_mapping *from, const char *path)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sdt_mapping *mapping;
	size_t path_size = strlen(path) + 1, size;

	pthread_once(&once, install_handlers);
	if (handlers_error != 0 || __builtin_add_overflow(sizeof *mapping, path_size, &size))
		return NULL;
	mapping = malloc(size);
	if (!mapping)
		return NULL;
	*mapping = *from;
	memcpy(mapping->path, path, path_size);
	pthread_mutex_lock(&mappings_lock);
	mapping->next = mappings;
	mapping->link = &mappings;
	if (mappings)
		mappings->link = &mapping->next;
	mappings = mapping;
	pthread_mutex_unlock(&mappings_lock);
	return mapping;
}

/* sdt_fork_release must be called before the pages are unmapped or replaced. */
void sdt_fork_release(struct sdt_mapping *mapping)
{
	if (!mapping)
		return;
	pthread_mutex_lock(&mappings_lock);
	*mapping->link = mapping->next;
	if (mapping->next)
		mapping->next->link = mapping->link;
	pthread_mutex_unlock(&mappings_lock);
	free(mapping);
}
