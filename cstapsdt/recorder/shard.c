/*
 * The shards of a recording: the choice of a shard for a fire, and waiting until no fire
 * is in any.
 */
#include "writer.h"

#include <time.h>

/* Slots are taken from threads that have ended at most this often. */
#define RECLAIM_INTERVAL 1000000000 /* in nanoseconds */

/*
 * STOP_TRIES is the time in milliseconds for which stop waits for fires that have begun.
 */
enum { STOP_TRIES = 1000 };

static struct sdt_slot *window_of(struct sdt_writer *writer, uint32_t self)
{
	return &writer->slots[self & (SDT_SLOTS - 1)];
}

static bool is_owned_by(const struct sdt_slot *slot, uint32_t self)
{
	return __atomic_load_n(&slot->owner, __ATOMIC_RELAXED) == self;
}

/* take_slot assigns a free slot to the calling thread, or returns NULL. */
static struct sdt_slot *take_slot(struct sdt_writer *writer, uint32_t self)
{
	struct sdt_slot *slot = window_of(writer, self);

	for (int i = 0; i < SDT_WINDOW; i++, slot++) {
		uint32_t nobody = 0;

		if (__atomic_compare_exchange_n(&slot->owner, &nobody, self, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return slot;
	}
	return NULL;
}

/*
 * reclaim_slot takes a slot from a thread that has ended. Another thread may have got its
 * number, and with it the slot, so the check is repeated once no thread can find the slot
 * any longer.
 */
static void reclaim_slot(struct sdt_slot *slot)
{
	uint32_t owner = __atomic_load_n(&slot->owner, __ATOMIC_RELAXED);
	const uint32_t reserved = UINT32_MAX;

	if (owner == 0 || owner == reserved || sdt_thread_alive(owner))
		return;
	if (!__atomic_compare_exchange_n(&slot->owner, &owner, reserved, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	if (sdt_thread_alive(owner)) {
		__atomic_store_n(&slot->owner, owner, __ATOMIC_RELEASE);
		return;
	}
	/* The thread may have ended within a record, which is then not committed. */
	if (__atomic_load_n(&slot->busy, __ATOMIC_ACQUIRE))
		__atomic_store_n(&slot->busy, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->owner, 0, __ATOMIC_RELEASE);
}

static void reclaim_slots(struct sdt_writer *writer)
{
	uint64_t now = sdt_monotonic(), last = __atomic_load_n(&writer->reclaimed, __ATOMIC_RELAXED);

	if (now - last < RECLAIM_INTERVAL ||
	    !__atomic_compare_exchange_n(&writer->reclaimed, &last, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	for (int i = 0; i < SDT_SLOTS + SDT_WINDOW; i++)
		reclaim_slot(&writer->slots[i]);
}

/*
 * sdt_slot_enter_own returns the busy slot of a thread that was found to own none, or NULL: then
 * it has to use a shared one.
 */
struct sdt_slot *sdt_slot_enter_own(struct sdt_writer *writer, uint32_t self)
{
	struct sdt_slot *slot = window_of(writer, self);

	for (int i = 0; i < SDT_WINDOW; i++)
		if (is_owned_by(slot + i, self))
			return NULL; /* it is busy */
	if (!__atomic_load_n(&writer->alive, __ATOMIC_ACQUIRE))
		return NULL;
	slot = take_slot(writer, self);
	if (!slot) {
		int cancel = sdt_cancel_hold();

		reclaim_slots(writer);
		sdt_cancel_release(cancel);
	}
	return slot && sdt_slot_occupy(writer, slot) ? slot : NULL;
}

/*
 * sdt_slot_enter_shared returns a busy shared slot, or NULL if there is none or the writer is
 * stopped. *tried is the number of slots that the caller has tried.
 */
struct sdt_slot *sdt_slot_enter_shared(struct sdt_writer *writer, uint32_t self, uint32_t *tried)
{
	while (*tried < SDT_SHARED_SLOTS) {
		struct sdt_slot *slot = &writer->common[(self + (*tried)++) % SDT_SHARED_SLOTS];
		uint32_t idle = 0;

		if (__atomic_load_n(&slot->busy, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&slot->busy, &idle, 1, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		sdt_fence();
		if (__atomic_load_n(&writer->alive, __ATOMIC_ACQUIRE))
			return slot;
		sdt_slot_leave(slot);
		return NULL;
	}
	return NULL;
}

/*
 * sdt_slot_has_shard gives a busy slot a shard if it has none, and reports whether it has one. A
 * recording with few chunks has few shards, and some of them are for shared slots only.
 */
bool sdt_slot_has_shard(struct sdt_writer *writer, struct sdt_slot *slot)
{
	bool shared = slot >= writer->common;
	uint32_t limit = shared ? writer->shards : writer->shards - writer->reserve;
	uint32_t given = __atomic_load_n(&writer->given, __ATOMIC_RELAXED);

	while (slot->shard == SDT_NO_SHARD && given < limit)
		if (__atomic_compare_exchange_n(&writer->given, &given, given + 1, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			slot->shard = (int32_t)given;
	return slot->shard != SDT_NO_SHARD;
}

static void reset_slot(struct sdt_slot *slot)
{
	slot->shard = SDT_NO_SHARD;
	slot->used = (uint32_t)SDT_CHUNK_BYTES;
	slot->chunk = NULL;
	slot->events = slot->read = slot->interval = 0;
	slot->retired = SDT_NO_CHUNK;
}

/*
 * sdt_slots_reset prepares the slots of a writer in which no fire is. Their owners stay: an
 * owner that has not yet seen that the writer is stopped may still set and clear `busy`.
 */
void sdt_slots_reset(struct sdt_writer *writer)
{
	writer->given = 0;
	for (int i = 0; i < SDT_SLOTS + SDT_WINDOW; i++)
		reset_slot(&writer->slots[i]);
	for (int i = 0; i < SDT_SHARED_SLOTS; i++)
		reset_slot(&writer->common[i]);
}

static bool is_slot_quiet(struct sdt_slot *slot)
{
	uint32_t owner = __atomic_load_n(&slot->owner, __ATOMIC_RELAXED);

	if (!__atomic_load_n(&slot->busy, __ATOMIC_ACQUIRE))
		return true;
	if (owner == 0 || sdt_thread_alive(owner))
		return false;
	__atomic_store_n(&slot->busy, 0, __ATOMIC_RELAXED);
	return true;
}

/*
 * sdt_slots_quiet waits until no fire is in the writer, which is not alive. It reports false if
 * one does not end: its thread was left by longjmp, or is stopped.
 */
bool sdt_slots_quiet(struct sdt_writer *writer)
{
	const struct timespec millisecond = {.tv_nsec = 1000000};

	for (int tries = 0; tries < STOP_TRIES; tries++) {
		bool quiet = !__atomic_load_n(&writer->storing, __ATOMIC_ACQUIRE);

		for (int i = 0; i < SDT_SLOTS + SDT_WINDOW; i++)
			quiet = is_slot_quiet(&writer->slots[i]) && quiet;
		for (int i = 0; i < SDT_SHARED_SLOTS; i++)
			quiet = is_slot_quiet(&writer->common[i]) && quiet;
		if (quiet)
			return true;
		nanosleep(&millisecond, NULL);
	}
	return false;
}
