/*
 * The writer of a recording: it appends events to memory that others read, from its beginning to
 * its end.
 */
#include "writer.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A recording has a shard for every two chunks, so that each shard may keep one. */
enum { CHUNKS_OF_SHARD = 2, MIN_CHUNKS = 4 };

uint64_t sdt_recording_chunks(uint64_t bytes)
{
	uint64_t chunks = bytes / SDT_CHUNK_BYTES + (bytes % SDT_CHUNK_BYTES != 0);

	return chunks < MIN_CHUNKS ? MIN_CHUNKS : chunks;
}

uint64_t sdt_recording_size(uint64_t chunks)
{
	return SDT_HEAD_BYTES + sdt_table_size(chunks) + chunks * SDT_CHUNK_BYTES;
}

static void *map_private(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/*
 * private_size returns the size of the private memory of a recording: two tables, an index, and a
 * queue.
 */
static size_t private_size(const struct sdt_memory *memory)
{
	return (size_t)(5 * sdt_table_size(memory->chunks) / 2 + memory->chunks * sizeof(uint32_t));
}

/* sdt_writer_make returns a writer that is not alive, or NULL if there is no memory. */
struct sdt_writer *sdt_writer_make(void)
{
	struct sdt_writer *writer = map_private(sizeof *writer);

	if (writer) /* since Linux 4.14; a raw clone before that writes to its parent's recording */
		(void)madvise(writer, sizeof *writer, MADV_WIPEONFORK);
	return writer;
}

/* sdt_writer_forget is called in a forked child, where no other thread is. */
void sdt_writer_forget(struct sdt_writer *writer) { memset(writer, 0, sizeof *writer); }

static bool can_make_threads_pass_barriers(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static void write_head(const struct sdt_writer *writer)
{
	unsigned char *head = writer->memory.bytes;
	struct sdt_reading reading = sdt_clock_read(&writer->clock);

	memset(head, 0, SDT_HEAD_BYTES);
	memcpy(head, sdt_magic, sizeof sdt_magic);
	sdt_put_u16(head + SDT_OFF_MAJOR, SDT_MAJOR);
	sdt_put_u16(head + SDT_OFF_MINOR, SDT_MINOR);
	sdt_put_u32(head + SDT_OFF_CLOCK,
		    writer->clock.counter ? SDT_CLOCK_COUNTER : SDT_CLOCK_MONOTONIC);
	sdt_put_u64(head + SDT_OFF_TABLE_BYTES, writer->table_bytes);
	sdt_put_u64(head + SDT_OFF_CHUNKS, writer->memory.chunks);
	sdt_put_u32(head + SDT_OFF_SHARDS, writer->shards);
	sdt_put_u32(head + SDT_OFF_PID, writer->memory.pid);
	sdt_describe_process(head);
	sdt_put_reading(head + SDT_OFF_HEAD_READING, &reading);
}

static void count_shards(struct sdt_writer *writer)
{
	uint64_t shards = writer->memory.chunks / CHUNKS_OF_SHARD;

	if (shards < 2)
		shards = 2;
	if (shards > SDT_MAX_SHARDS)
		shards = SDT_MAX_SHARDS;
	writer->shards = (uint32_t)shards;
	writer->reserve = shards / 2 < SDT_SHARED_SLOTS ? (uint32_t)shards / 2 : SDT_SHARED_SLOTS;
}

/*
 * sdt_writer_begin writes the head of a recording to its memory, which is filled with zeros. The
 * writer is not alive yet. It returns -1 if there is no memory.
 */
int sdt_writer_begin(struct sdt_writer *writer, const struct sdt_memory *memory, int sink)
{
	unsigned char *table = map_private(private_size(memory));

	if (!table)
		return -1;
	__atomic_store_n(&writer->sink, sink, __ATOMIC_RELAXED);
	writer->memory = *memory;
	writer->table_bytes = sdt_table_size(memory->chunks);
	writer->table = table;
	writer->index = (struct sdt_place *)(void *)(table + 2 * writer->table_bytes);
	writer->queue = (uint32_t *)(void *)(table + 5 * writer->table_bytes / 2);
	writer->clock = sdt_clock_choose();
	__atomic_store_n(&writer->asymmetric, can_make_threads_pass_barriers(), __ATOMIC_RELAXED);
	writer->table_used = 0;
	writer->probes = 0;
	/* a fire that has lost its event may count it late */
	__atomic_store_n(&writer->dropped, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&writer->stored, 0, __ATOMIC_SEQ_CST);
	count_shards(writer);
	sdt_chunks_reset(writer);
	sdt_slots_reset(writer);
	write_head(writer);
	return 0;
}

void sdt_writer_start(struct sdt_writer *writer)
{
	__atomic_store_n(&writer->alive, 1, __ATOMIC_RELEASE);
}

/* pass_barriers returns once every thread has passed a barrier. */
static void pass_barriers(const struct sdt_writer *writer)
{
	const struct timespec long_enough = {.tv_nsec = 10000000};

	sdt_fence();
	if (writer->asymmetric &&
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
		nanosleep(&long_enough, NULL); /* a filter has forbidden it meanwhile */
}

/*
 * sdt_writer_stop ends a recording. After it returns true, no fire writes to the memory, now or
 * later: a thread stores to it only after it has set `busy` of a slot, or `storing`, and has then
 * found the writer alive. Only the table is written under the lock of observe.c, which the caller
 * holds. After false, the memory must stay, and the writer must not be used again.
 */
bool sdt_writer_stop(struct sdt_writer *writer)
{
	__atomic_store_n(&writer->alive, 0, __ATOMIC_SEQ_CST);
	pass_barriers(writer);
	if (!sdt_slots_quiet(writer))
		return false;
	sdt_store64(writer->memory.bytes + SDT_OFF_DROPPED,
		    __atomic_load_n(&writer->dropped, __ATOMIC_SEQ_CST));
	sdt_store32(writer->memory.bytes + SDT_OFF_ENDED, 1);
	munmap(writer->table, private_size(&writer->memory));
	writer->table = NULL;
	writer->index = NULL;
	writer->queue = NULL;
	return true;
}

/*
 * sdt_writer_exit notes in the recording that its process exits. Later fires are still appended.
 */
void sdt_writer_exit(const struct sdt_writer *writer)
{
	if (__atomic_load_n(&writer->alive, __ATOMIC_ACQUIRE)) /* not in the child of a raw clone */
		sdt_store32(writer->memory.bytes + SDT_OFF_ENDED, 1);
}

/*
 * sdt_writer_drop counts lost events. It does not wait: if another thread counts at the same
 * time, one of the two stores both counts. A signal handler that interrupts the store leaves
 * it to the thread.
 */
void sdt_writer_drop(struct sdt_writer *writer, uint64_t count)
{
	uint64_t now = __atomic_add_fetch(&writer->dropped, count, __ATOMIC_SEQ_CST);
	int cancel = sdt_cancel_hold();

	while (__atomic_load_n(&writer->stored, __ATOMIC_SEQ_CST) != now) {
		uint32_t idle = 0;

		if (!__atomic_compare_exchange_n(&writer->storing, &idle, 1, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_RELAXED))
			break;
		if (__atomic_load_n(&writer->alive, __ATOMIC_SEQ_CST)) {
			now = __atomic_load_n(&writer->dropped, __ATOMIC_SEQ_CST);
			sdt_store64(writer->memory.bytes + SDT_OFF_DROPPED, now);
		}
		__atomic_store_n(&writer->stored, now, __ATOMIC_SEQ_CST);
		__atomic_store_n(&writer->storing, 0, __ATOMIC_SEQ_CST);
		now = __atomic_load_n(&writer->dropped, __ATOMIC_SEQ_CST);
	}
	sdt_cancel_release(cancel);
}
