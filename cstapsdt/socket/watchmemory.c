/*
 * The memory of a watcher: a memfd, to which only this process can write where the kernel has the
 * seals.
 */
#include "socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8 /* since Linux 6.3 */
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* since Linux 5.1 */
#endif

/* A watcher has at most MAX_RING bytes of chunks, and all of them at most MAX_MEMORY. */
#define MAX_RING ((uint64_t)64 << 20)
#define MIN_CHUNKS 4

/* choose_size chooses as many chunks as were requested, or as there is room for. */
static int choose_size(struct sdt_watch_memory *memory, uint64_t bytes, uint64_t room)
{
	uint64_t chunks = sdt_recording_chunks(bytes < MAX_RING ? bytes : MAX_RING);
	uint64_t limit = sdt_file_limit();

	room = limit < room ? limit : room;
	while (sdt_recording_size(chunks) > room) {
		if (chunks == MIN_CHUNKS)
			return -1;
		chunks = chunks / 2 > MIN_CHUNKS ? chunks / 2 : MIN_CHUNKS;
	}
	memory->memory.chunks = chunks;
	memory->size = sdt_recording_size(chunks);
	return 0;
}

/* fill_memory allocates, maps and seals the memory, so that a fire never lacks memory. */
static int fill_memory(struct sdt_watch_memory *memory)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	void *bytes;
	int failed;

	do
		failed = fallocate(memory->fd, 0, 0, (off_t)memory->size);
	while (failed != 0 && errno == EINTR);
	if (failed != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		failed = ftruncate(memory->fd, (off_t)memory->size);
	if (failed != 0)
		return -1;
	bytes = mmap(NULL, (size_t)memory->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
	if (bytes == MAP_FAILED)
		return -1;
	memory->memory.bytes = bytes;
	(void)madvise(bytes, (size_t)memory->size, MADV_DONTFORK); /* not inherited by a forked child */
	if (fcntl(memory->fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) == 0)
		return 0;
	return errno == EINVAL ? fcntl(memory->fd, F_ADD_SEALS, seals) : -1;
}

/*
 * sdt_watch_memory_make makes memory for a number of bytes of chunks, or fewer. It returns -1 if
 * there is no memory.
 */
int sdt_watch_memory_make(struct sdt_watch_memory *memory, uint64_t bytes, uint64_t room,
			  uint32_t pid)
{
	char name[32];

	*memory = (struct sdt_watch_memory){.fd = -1, .memory.pid = pid};
	if (choose_size(memory, bytes, room) != 0)
		return -1;
	snprintf(name, sizeof name, "stapsdt-watch-%lu", (unsigned long)pid);
	memory->fd = sdt_file_memory(name, MFD_NOEXEC_SEAL);
	if (memory->fd >= 0 && fill_memory(memory) == 0)
		return 0;
	sdt_watch_memory_free(memory, true);
	return -1;
}

/* sdt_watch_memory_free frees the memory, which stays mapped if a fire may still be in it. */
void sdt_watch_memory_free(struct sdt_watch_memory *memory, bool unmap)
{
	if (unmap && memory->memory.bytes)
		munmap(memory->memory.bytes, (size_t)memory->size);
	memory->memory.bytes = NULL;
	memory->size = 0;
	if (memory->fd >= 0)
		close(memory->fd);
	memory->fd = -1;
}
