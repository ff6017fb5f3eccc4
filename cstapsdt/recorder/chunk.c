/*
 * The chunks of a recording: a slot with a full chunk takes the oldest chunk that no slot writes
 * to.
 */
#include "writer.h"

/*
 * LOCK_TRIES is the number of attempts of a fire to get the lock of the queue, which is held for
 * about ten instructions.
 */
enum { LOCK_TRIES = 2000 };

static inline void pause_thread(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/*
 * lock_queue does not wait for its own thread, which a signal may have interrupted, and waits
 * only briefly for another thread, which may not be running.
 */
static bool lock_queue(struct sdt_writer *writer)
{
	uint32_t self = sdt_thread_id();

	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		uint32_t owner = 0;

		if (__atomic_compare_exchange_n(&writer->queue_lock, &owner, self, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
		if (owner == self)
			return false;
		pause_thread();
	}
	return false;
}

static void unlock_queue(struct sdt_writer *writer)
{
	__atomic_store_n(&writer->queue_lock, 0, __ATOMIC_RELEASE);
}

/*
 * retire_chunk releases the chunk that the slot had before its present one to other slots. The lock
 * is held.
 */
static void retire_chunk(struct sdt_writer *writer, struct sdt_slot *slot)
{
	uint64_t chunks = writer->memory.chunks;

	if (slot->retired == SDT_NO_CHUNK)
		return;
	writer->queue[(writer->first + writer->length++) % chunks] = (uint32_t)slot->retired;
	slot->retired = SDT_NO_CHUNK;
}

/* take_oldest takes the oldest chunk. It reports false if there is none. */
static bool take_oldest(struct sdt_writer *writer, struct sdt_slot *slot, uint64_t *index,
			uint64_t *sequence)
{
	bool found;

	if (!lock_queue(writer))
		return false;
	retire_chunk(writer, slot);
	found = writer->length > 0;
	if (found) {
		*index = writer->queue[writer->first];
		writer->first = (writer->first + 1) % writer->memory.chunks;
		writer->length--;
		*sequence = ++writer->sequence;
	}
	unlock_queue(writer);
	return found;
}

static unsigned char *chunk_at(const struct sdt_writer *writer, uint64_t index)
{
	return writer->memory.bytes + SDT_HEAD_BYTES + writer->table_bytes + index * SDT_CHUNK_BYTES;
}

/*
 * take_chunk gives a busy slot another chunk. It reports false if there is none. The slot's chunk
 * is retired when the next one is readable. A reader therefore always finds the last chunk of a
 * shard, which has the number of the shard's earlier events.
 */
static bool take_chunk(struct sdt_writer *writer, struct sdt_slot *slot)
{
	unsigned char *before = slot->chunk, *chunk;
	struct sdt_reading reading;
	uint64_t index, sequence;

	if (!sdt_slot_has_shard(writer, slot) || !take_oldest(writer, slot, &index, &sequence))
		return false;
	chunk = chunk_at(writer, index);
	sdt_store64(chunk + SDT_OFF_SEQUENCE, 0);
	/*
	 * A reader that finds any of the following stores finds another sequence number too.
	 */
	sdt_fence();
	reading = sdt_clock_read(&writer->clock);
	sdt_put_u32(chunk + SDT_OFF_SHARD, (uint64_t)slot->shard);
	sdt_put_u32(chunk + SDT_OFF_PROCESS, 0); /* each record has its process and thread */
	sdt_put_u64(chunk + SDT_OFF_BEFORE, slot->events);
	sdt_put_reading(chunk + SDT_OFF_READING, &reading);
	sdt_put_u64(chunk + SDT_OFF_COMMITTED, 0);
	sdt_put_u64(chunk + SDT_OFF_DROPPED_BEFORE,
		    __atomic_load_n(&writer->dropped, __ATOMIC_RELAXED));
	sdt_store64(chunk + SDT_OFF_SEQUENCE, sequence);
	sdt_store64(writer->memory.bytes + SDT_OFF_LATEST, sequence);

	if (before)
		slot->retired = (int64_t)((uint64_t)(before - chunk_at(writer, 0)) / SDT_CHUNK_BYTES);
	slot->chunk = chunk;
	slot->used = (uint32_t)SDT_CHUNK_HEAD_BYTES;
	slot->read = reading.ticks;
	if (!writer->clock.counter)
		slot->interval = UINT64_MAX; /* times are not computed from readings */
	else if (slot->interval < writer->clock.second / 1024)
		slot->interval = writer->clock.second / 1024;
	if (before && lock_queue(writer)) { /* otherwise the next call retires it */
		retire_chunk(writer, slot);
		unlock_queue(writer);
	}
	return true;
}

bool sdt_chunk_next(struct sdt_writer *writer, struct sdt_slot *slot)
{
	int cancel = sdt_cancel_hold();
	bool found = take_chunk(writer, slot);

	sdt_cancel_release(cancel);
	return found;
}

void sdt_chunks_reset(struct sdt_writer *writer)
{
	writer->first = 0;
	writer->length = writer->memory.chunks;
	writer->sequence = 0;
	writer->queue_lock = 0;
	for (uint64_t i = 0; i < writer->memory.chunks; i++)
		writer->queue[i] = (uint32_t)i;
}
