/*
 * The state of a recording's writer, which is private to its process: writer.c, append.c, table.c,
 * chunk.c and shard.c.
 */
#ifndef SDT_WRITER_H
#define SDT_WRITER_H

#include "recorder.h"

enum {
	SDT_SLOTS = 256,       /* slots that threads can own; a power of two */
	SDT_WINDOW = 4,        /* a thread's slot is one of these, from its number on */
	SDT_SHARED_SLOTS = 32, /* slots for threads that own none */
	SDT_NO_SHARD = -1,     /* the slot has none yet, or can have none */
	SDT_NO_CHUNK = -1
};

/*
 * A slot holds the position at which a thread writes to its shard. Only the thread that owns
 * it, or that has set `busy` of a shared slot, uses the members after these two. A slot is
 * never taken from a living thread, so only its owner sets `busy`.
 */
struct sdt_slot {
	uint32_t owner; /* the number of the thread, or 0 */
	uint32_t busy;  /* 1 while a record is written, which a signal handler may interrupt */
	int32_t shard;
	uint32_t used;        /* bytes of the chunk, or SDT_CHUNK_BYTES before the first one */
	unsigned char *chunk; /* NULL before the first one */
	uint64_t events;      /* the number of the shard's events */
	uint64_t read;        /* the clock at the last reading in the chunk */
	uint64_t interval;    /* ticks until the next reading; without a counter, there is none */
	int64_t retired;      /* the previous chunk, or SDT_NO_CHUNK if others can have it */
} __attribute__((aligned(64)));

/*
 * A place in the index of the table: the position of an entry, in words of 8 bytes from 1 on, and
 * its number.
 */
struct sdt_place {
	uint32_t words, number;
};

/*
 * A writer is in memory that a forked child finds filled with zeros, so it is not alive there.
 * It contains everything that determines where a fire writes; none of it is read from the
 * recording.
 */
struct sdt_writer {
	uint32_t alive;
	uint32_t asymmetric; /* stop makes all threads pass a barrier, and fires need none */
	uint32_t shards;     /* the number of shards that the recording can have */
	uint32_t reserve;    /* the number of shards for shared slots */
	uint32_t given;      /* the number of shards that have a slot */
	int sink;            /* the index of its sink */
	struct sdt_clock clock;
	struct sdt_memory memory;

	/*
	 * The chunks that no slot writes to, the oldest first, and the lock of the following
	 * members.
	 */
	uint32_t queue_lock; /* the number of the thread that holds the lock, or 0 */
	uint64_t first, length;
	uint64_t sequence;
	uint32_t *queue; /* with room for all chunks */

	uint64_t table_bytes, table_used; /* under the lock of observe.c */
	unsigned char *table; /* a copy of the table, and room for another one */
	struct sdt_place *index; /* half as large as the table */
	uint32_t probes;

	uint64_t dropped, stored;
	uint32_t storing; /* a lock, while `dropped` is stored */
	uint64_t reclaimed; /* when slots were last taken from threads that have ended */

	struct sdt_slot slots[SDT_SLOTS + SDT_WINDOW];
	struct sdt_slot common[SDT_SHARED_SLOTS];
};

/* A store that publishes everything written before it. */
static inline void sdt_store32(unsigned char *to, uint64_t value)
{
	__atomic_store_n((uint32_t *)(void *)to, htole32((uint32_t)value), __ATOMIC_RELEASE);
}

/* The upper half is stored first: it does not change while a reader can find the lower one. */
static inline void sdt_store64(unsigned char *to, uint64_t value)
{
#if UINTPTR_MAX == UINT64_MAX
	__atomic_store_n((uint64_t *)(void *)to, htole64(value), __ATOMIC_RELEASE);
#else
	sdt_store32(to + 4, value >> 32);
	sdt_store32(to, value);
#endif
}

/* shard.c: the slot that a fire writes to. */
struct sdt_slot *sdt_slot_enter_own(struct sdt_writer *writer, uint32_t self);
struct sdt_slot *sdt_slot_enter_shared(struct sdt_writer *writer, uint32_t self, uint32_t *tried);
bool sdt_slot_has_shard(struct sdt_writer *writer, struct sdt_slot *slot);
void sdt_slots_reset(struct sdt_writer *writer);
bool sdt_slots_quiet(struct sdt_writer *writer);

static inline void sdt_slot_leave(struct sdt_slot *slot)
{
	__atomic_store_n(&slot->busy, 0, __ATOMIC_RELEASE);
}

/*
 * sdt_slot_occupy makes a slot of the calling thread busy, unless the writer is stopped or the
 * thread is in a signal handler that interrupted a record. Stop clears `alive` and then looks
 * at `busy`, so one of the two sides sees what the other has stored.
 */
static inline bool sdt_slot_occupy(struct sdt_writer *writer, struct sdt_slot *slot)
{
	if (__atomic_load_n(&slot->busy, __ATOMIC_ACQUIRE)) /* after an earlier thread of this number */
		return false;
	__atomic_store_n(&slot->busy, 1, __ATOMIC_RELAXED);
	if (__builtin_expect(__atomic_load_n(&writer->asymmetric, __ATOMIC_RELAXED), 1))
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	else
		sdt_fence();
	if (__builtin_expect(__atomic_load_n(&writer->alive, __ATOMIC_ACQUIRE), 1))
		return true;
	sdt_slot_leave(slot);
	return false;
}

/* table.c */
uint64_t sdt_table_size(uint64_t chunks);

/* chunk.c: the chunk that a slot writes to. */
bool sdt_chunk_next(struct sdt_writer *writer, struct sdt_slot *slot);
void sdt_chunks_reset(struct sdt_writer *writer);

#endif
