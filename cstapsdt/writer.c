/* The writer of a recording: it appends the events of this process to memory that others read. */
#ifndef SDT_IN_GO
#include "writer.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A recording has a shard for every two chunks, of which the shard may keep one. */
enum { CHUNKS_OF_SHARD = 2, MIN_CHUNKS = 4, READING_RECORD_BYTES = 40 };

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

/* private_size returns the size of what only this process has of a recording: twice a table, its index, and a queue. */
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
	if (shards > SDT_SLOTS + SDT_WINDOW + SDT_SHARED_SLOTS)
		shards = SDT_SLOTS + SDT_WINDOW + SDT_SHARED_SLOTS;
	writer->shards = (uint32_t)shards;
	writer->reserve = shards / 2 < SDT_SHARED_SLOTS ? (uint32_t)shards / 2 : SDT_SHARED_SLOTS;
}

/*
 * sdt_writer_begin writes the head of a recording to its memory, which is filled with zeros. The
 * writer is not alive yet. It returns -1 if there is no memory.
 */
int sdt_writer_begin(struct sdt_writer *writer, const struct sdt_memory *memory)
{
	unsigned char *table = map_private(private_size(memory));

	if (!table)
		return -1;
	writer->memory = *memory;
	writer->table_bytes = sdt_table_size(memory->chunks);
	writer->table = table;
	writer->index = (struct sdt_place *)(void *)(table + 2 * writer->table_bytes);
	writer->queue = (uint32_t *)(void *)(table + 5 * writer->table_bytes / 2);
	writer->clock = sdt_clock_choose();
	__atomic_store_n(&writer->asymmetric, can_make_threads_pass_barriers(), __ATOMIC_RELAXED);
	writer->table_used = 0;
	writer->probes = 0;
	__atomic_store_n(&writer->dropped, 0, __ATOMIC_SEQ_CST); /* a fire that has lost its event may count it late */
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

/* pass_barriers returns after every thread has passed a barrier. */
static void pass_barriers(const struct sdt_writer *writer)
{
	const struct timespec long_enough = {.tv_nsec = 10000000};

	sdt_fence();
	if (writer->asymmetric &&
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
		nanosleep(&long_enough, NULL); /* a filter has forbidden it meanwhile */
}

/*
 * sdt_writer_stop ends a recording. When it has returned true, no fire is in the memory or will
 * be: a thread stores to it only after it has set `busy` of a slot, or `storing`, and then has found the writer alive. Only the
 * table is written under the lock of observe.c, which the caller has. After false, the memory must stay, and the writer must not
 * be used again.
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
 * sdt_writer_drop counts events that are lost. It does not wait: what another thread counts
 * meanwhile is stored by one of the two. A signal handler that interrupts the storing leaves
 * that to the thread.
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

static inline uint64_t extend(uint64_t value, ArgType_t type)
{
	switch (type) {
	case uint8:
		return (uint8_t)value;
	case int8:
		return (uint64_t)(int64_t)(int8_t)value;
	case uint16:
		return (uint16_t)value;
	case int16:
		return (uint64_t)(int64_t)(int16_t)value;
	case uint32:
		return (uint32_t)value;
	case int32:
		return (uint64_t)(int64_t)(int32_t)value;
	case uint64:
	case int64:
	case sdt_string:
	case noarg:
		break;
	}
	return value;
}

/* The text of an argument that is NULL. */
static const char null_text[] = "(null)";

/* put_text writes a text with zeros up to a multiple of 8 bytes, and returns what follows it. */
static __attribute__((noinline)) unsigned char *put_text(unsigned char *to, const char *from,
							 size_t length)
{
	size_t padded = (length + 8) & ~(size_t)7;

	memset(to + padded - 8, 0, 8);
	memcpy(to, from ? from : null_text, length);
	return to + padded;
}

/* put_arguments writes the words, and then the texts. */
static inline __attribute__((always_inline)) void put_arguments(unsigned char *to,
								const struct sdt_event *event)
{
	unsigned char *text = to + 8 * (size_t)event->count;

	for (int i = 0; i < event->count; i++, to += 8) {
		uint64_t value = event->values[i];

		if (event->types[i] == sdt_string) {
			sdt_put_u64(to, event->lengths[i]);
			text = put_text(text, (const char *)(uintptr_t)value, event->lengths[i]);
		} else
			sdt_put_u64(to, extend(value, event->types[i]));
	}
}

/* commit makes what was written to the slot's chunk readable. */
static inline void commit(struct sdt_slot *slot, uint32_t size)
{
	slot->next += size;
	slot->room -= size;
	sdt_store64(slot->chunk + SDT_OFF_COMMITTED,
		    (uint64_t)(slot->next - slot->chunk) - SDT_CHUNK_HEAD_BYTES);
}

/* put_reading appends a reading of the clocks. They are rarer and rarer, up to one a second. */
static void put_reading_record(const struct sdt_writer *writer, struct sdt_slot *slot)
{
	struct sdt_reading reading = sdt_clock_read(&writer->clock);

	sdt_put_u32(slot->next, READING_RECORD_BYTES);
	sdt_put_u32(slot->next + 4, SDT_READING_RECORD);
	sdt_put_u64(slot->next + 8, reading.ticks);
	sdt_put_u64(slot->next + 16, 0);
	sdt_put_u64(slot->next + 24, reading.monotonic);
	sdt_put_u64(slot->next + 32, reading.realtime);
	commit(slot, READING_RECORD_BYTES);
	slot->read = reading.ticks;
	slot->interval = 2 * slot->interval < writer->clock.second ? 2 * slot->interval
								   : writer->clock.second;
}

/* is_reading_due reports whether the last reading is too old to compute the time from it. */
static inline bool is_reading_due(const struct sdt_writer *writer, const struct sdt_slot *slot,
				  uint64_t now)
{
	return writer->clock.counter && now - slot->read > slot->interval;
}

/* make_room finds room for a record of the size, after a reading if one is due. */
static __attribute__((noinline)) bool make_room(struct sdt_writer *writer, struct sdt_slot *slot,
						uint32_t size)
{
	if (size + READING_RECORD_BYTES > slot->room)
		return sdt_chunk_next(writer, slot);
	put_reading_record(writer, slot);
	return true;
}

/* append_to appends an event to a busy slot, and reports false if there is no chunk for it. */
static inline bool append_to(struct sdt_writer *writer, struct sdt_slot *slot, uint32_t self,
			     uint32_t number, const struct sdt_event *event)
{
	uint64_t now = sdt_clock_now(&writer->clock);
	unsigned char *to;

	if (__builtin_expect(event->size > slot->room || is_reading_due(writer, slot, now), 0)) {
		if (!make_room(writer, slot, event->size))
			return false;
		now = sdt_clock_now(&writer->clock);
	}
	to = slot->next;
	__builtin_prefetch(to + 1024, 1); /* memory that was not written to for long is in no cache */
	sdt_put_u64(to, (uint64_t)number << 32 | event->size);
	sdt_put_u64(to + 8, now);
	sdt_put_u64(to + 16, (uint64_t)writer->memory.pid << 32 | self);
	put_arguments(to + SDT_RECORD_HEAD_BYTES, event);
	slot->events++;
	commit(slot, event->size);
	return true;
}

/* append_shared appends an event to a shared slot, or counts it as lost. */
static __attribute__((noinline)) void append_shared(struct sdt_writer *writer, uint32_t self,
						    const uint32_t *number,
						    const struct sdt_event *event)
{
	struct sdt_slot *slot;
	uint32_t tried = 0;
	bool appended = false;
	int cancel = sdt_cancel_hold();

	while (!appended && (slot = sdt_slot_enter_shared(writer, self, &tried))) {
		uint32_t known = __atomic_load_n(number, __ATOMIC_RELAXED);

		if (known == SDT_NO_NUMBER)
			tried = SDT_SHARED_SLOTS;
		else if (known == SDT_NOT_ASKED)
			appended = true;
		else
			appended = append_to(writer, slot, self, known, event);
		sdt_slot_leave(slot);
	}
	if (!appended && __atomic_load_n(&writer->alive, __ATOMIC_ACQUIRE))
		sdt_writer_drop(writer, 1);
	sdt_cancel_release(cancel);
}

/* enter_owned makes the slot that the thread owns busy, and reports whether it could. */
static inline bool enter_owned(struct sdt_writer *writer, uint32_t self, struct sdt_slot **slot)
{
	struct sdt_slot *window = &writer->slots[self & (SDT_SLOTS - 1)];

	for (int i = 0; i < SDT_WINDOW; i++) {
		*slot = &window[i];
		if (__atomic_load_n(&window[i].owner, __ATOMIC_RELAXED) == self)
			return sdt_slot_occupy(writer, &window[i]);
	}
	*slot = sdt_slot_enter_own(writer, self);
	return *slot != NULL;
}

/*
 * sdt_writer_append appends an event, unless the writer is stopped. It never waits. *number is
 * that of the probe, which changes only while no fire is in the writer.
 */
void sdt_writer_append(struct sdt_writer *writer, const uint32_t *number,
		       const struct sdt_event *event)
{
	uint32_t self = sdt_thread_id(), known;
	struct sdt_slot *slot;
	bool appended = false;

	if (enter_owned(writer, self, &slot)) {
		known = __atomic_load_n(number, __ATOMIC_RELAXED);
		appended = known == SDT_NOT_ASKED ||
			   (known != SDT_NO_NUMBER && append_to(writer, slot, self, known, event));
		sdt_slot_leave(slot);
	}
	if (!appended)
		append_shared(writer, self, number, event);
}
#endif
