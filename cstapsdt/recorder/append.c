/*
 * Appending a fire to the recordings that its probe is in. Each fire of a recorded probe passes
 * through sdt_append_fire and append_fire. Rare cases are in functions of their own, which are not
 * inlined.
 */
#include "writer.h"

/* The largest text that is copied, without its NUL, and the size of a reading's record. */
enum { MAX_TEXT = 4095, READING_RECORD_BYTES = 40 };
static const char null_text[] = "(null)"; /* what is recorded for NULL */

/* What is appended. */
struct event {
	const struct sdt_observation *of;
	const uint64_t *values;
	const uint32_t *lengths; /* of the strings; other elements are not set */
	uint32_t size; /* at most that of the largest event */
	uint32_t thread;
};

/*
 * The bits of each type, and its sign bit if it has fewer than 64 bits: (v & mask ^ sign) - sign
 * extends v to 64 bits.
 */
#define AT(type) [8 + (type)]
static const uint64_t masks[] = {
	AT(int64) = UINT64_MAX, AT(int32) = UINT32_MAX, AT(int16) = UINT16_MAX, AT(int8) = UINT8_MAX,
	AT(uint8) = UINT8_MAX, AT(uint16) = UINT16_MAX, AT(uint32) = UINT32_MAX,
	AT(uint64) = UINT64_MAX,
	AT(noarg) = UINT64_MAX, AT(sdt_string) = UINT64_MAX,
};
static const uint64_t signs[] = {
	AT(int32) = 1U << 31, AT(int16) = 1U << 15, AT(int8) = 1U << 7, AT(sdt_string) = 0,
};

/* Both end with the last type. */
_Static_assert(sizeof masks / sizeof *masks == 8 + sdt_string + 1, "every type has a mask");
_Static_assert(sizeof signs == sizeof masks, "every type has a sign");

/*
 * measure_texts finds the lengths of the texts, and returns the size of the record with them.
 */
static __attribute__((noinline)) uint32_t measure_texts(const struct sdt_observation *of,
							const uint64_t *values, uint32_t *lengths)
{
	uint32_t size = of->size;

	for (int i = 0; i < of->count; i++) {
		const char *text = (const char *)(uintptr_t)values[i];

		if (of->probe->types[i] != sdt_string)
			continue;
		lengths[i] = (uint32_t)(text ? strnlen(text, MAX_TEXT) : sizeof null_text - 1);
		size += (lengths[i] + 8) & ~UINT32_C(7);
	}
	return size;
}

/* put_texts writes the texts after the words, and their lengths in place of the addresses. */
static __attribute__((noinline)) void put_texts(unsigned char *to, const struct sdt_observation *of,
						const uint64_t *values, const uint32_t *lengths)
{
	unsigned char *text = to + 8 * (size_t)of->count;

	for (int i = 0; i < of->count; i++) {
		const char *from = (const char *)(uintptr_t)values[i];
		size_t padded;

		if (of->probe->types[i] != sdt_string)
			continue;
		padded = ((size_t)lengths[i] + 8) & ~(size_t)7;
		sdt_put_u64(to + 8 * i, lengths[i]);
		memset(text + padded - 8, 0, 8);
		memcpy(text, from ? from : null_text, lengths[i]);
		text += padded;
	}
}

/* put_arguments writes the words, each extended to 64 bits, and the texts. */
static inline void put_arguments(unsigned char *to, const struct event *event)
{
	const ArgType_t *types = event->of->probe->types;

	for (size_t i = 0, count = event->of->count; i < count; i++) {
		uint64_t sign = signs[8 + types[i]];

		sdt_put_u64(to + 8 * i, ((event->values[i] & masks[8 + types[i]]) ^ sign) - sign);
	}
	if (event->of->has_texts)
		put_texts(to, event->of, event->values, event->lengths);
}

/* commit_slot makes the record that was written to the slot's chunk readable. */
static inline void commit_slot(struct sdt_slot *slot, uint32_t used)
{
	slot->used = used;
	sdt_store64(slot->chunk + SDT_OFF_COMMITTED, used - SDT_CHUNK_HEAD_BYTES);
}

/*
 * put_reading_record appends a reading of the clocks. Readings become rarer, down to one a second.
 */
static void put_reading_record(const struct sdt_writer *writer, struct sdt_slot *slot)
{
	struct sdt_reading reading = sdt_clock_read(&writer->clock);
	unsigned char *to = slot->chunk + slot->used;

	sdt_put_u32(to, READING_RECORD_BYTES);
	sdt_put_u32(to + 4, SDT_READING_RECORD);
	sdt_put_u64(to + 8, reading.ticks);
	sdt_put_u64(to + 16, 0);
	sdt_put_u64(to + 24, reading.monotonic);
	sdt_put_u64(to + 32, reading.realtime);
	commit_slot(slot, slot->used + READING_RECORD_BYTES);
	slot->read = reading.ticks;
	slot->interval = 2 * slot->interval < writer->clock.second ? 2 * slot->interval
								   : writer->clock.second;
}

/* make_room finds room for a record of the size, after a reading if one is due. */
static __attribute__((noinline)) bool make_room(struct sdt_writer *writer, struct sdt_slot *slot,
						uint32_t size)
{
	if (size + READING_RECORD_BYTES > SDT_CHUNK_BYTES - slot->used)
		return sdt_chunk_next(writer, slot);
	put_reading_record(writer, slot);
	return true;
}

/* append_to appends an event to a busy slot, and reports false if there is no chunk for it. */
static inline __attribute__((always_inline)) bool append_to(struct sdt_writer *writer,
							    struct sdt_slot *slot, uint32_t number,
							    const struct event *event)
{
	uint64_t now = sdt_clock_now(&writer->clock);
	uint32_t used = slot->used;
	unsigned char *to;

	/* The time is computed from the last reading, unless the reading is too old. */
	if (__builtin_expect(event->size > SDT_CHUNK_BYTES - used ||
			     now - slot->read > slot->interval, 0)) {
		if (!make_room(writer, slot, event->size))
			return false;
		now = sdt_clock_now(&writer->clock);
		used = slot->used;
	}
	to = slot->chunk + used;
	__builtin_prefetch(to + 1024, 1); /* memory not written for long is in no cache */
	sdt_put_u64(to, (uint64_t)number << 32 | event->size);
	sdt_put_u64(to + 8, now);
	sdt_put_u64(to + 16, (uint64_t)writer->memory.pid << 32 | event->thread);
	put_arguments(to + SDT_RECORD_HEAD_BYTES, event);
	slot->events++;
	commit_slot(slot, used + event->size);
	return true;
}

/* append_shared appends an event to a shared slot, or counts it as lost. */
static __attribute__((noinline)) void append_shared(struct sdt_writer *writer,
						    const uint32_t *number,
						    const struct sdt_observation *of,
						    const uint64_t *values)
{
	uint32_t lengths[SDT_MAX_ARGUMENTS];
	const struct event event = {of, values, lengths, measure_texts(of, values, lengths),
				    sdt_thread_id()};
	struct sdt_slot *slot;
	uint32_t tried = 0;
	bool appended = false;
	int cancel = sdt_cancel_hold();

	while (!appended && (slot = sdt_slot_enter_shared(writer, event.thread, &tried))) {
		uint32_t known = __atomic_load_n(number, __ATOMIC_RELAXED);

		if (known == SDT_NO_NUMBER)
			tried = SDT_SHARED_SLOTS;
		else if (known == SDT_NOT_ASKED)
			appended = true;
		else
			appended = append_to(writer, slot, known, &event);
		sdt_slot_leave(slot);
	}
	if (!appended && __atomic_load_n(&writer->alive, __ATOMIC_ACQUIRE))
		sdt_writer_drop(writer, 1);
	sdt_cancel_release(cancel);
}

/*
 * enter_owned makes the slot that the thread owns busy, and reports whether it could. The owner is
 * read relaxed, because nothing that another thread has written is read on account of it: the
 * number is the thread's own, which it stored itself, or which a thread that found it alive has put
 * back. What an earlier thread of the same number left is ordered by `busy`, which sdt_slot_occupy
 * acquires.
 */
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

/* append_fire appends a fire to a recording, unless its writer is stopped. It never waits. */
static inline __attribute__((always_inline)) void
append_fire(struct sdt_writer *writer, const struct sdt_observation *of, const uint64_t *values)
{
	const uint32_t *number = &of->numbers[__atomic_load_n(&writer->sink, __ATOMIC_RELAXED)];
	uint32_t lengths[SDT_MAX_ARGUMENTS];
	const struct event event = {of, values, lengths,
				    of->has_texts ? measure_texts(of, values, lengths) : of->size,
				    sdt_thread_id()};
	struct sdt_slot *slot;

#ifdef __clang_analyzer__
	memset(lengths, 0, sizeof lengths); /* the compiler does not know that has_texts is constant */
#endif
	if (__builtin_expect(enter_owned(writer, event.thread, &slot), 1)) {
		uint32_t known = __atomic_load_n(number, __ATOMIC_RELAXED);
		bool done = known < SDT_NOT_ASKED ? append_to(writer, slot, known, &event)
						  : known == SDT_NOT_ASKED;

		sdt_slot_leave(slot);
		if (__builtin_expect(done, 1))
			return;
	}
	append_shared(writer, number, of, values);
}

/* observation_of returns the observation of a probe, by the address of its slot's entry. */
static inline const struct sdt_observation *observation_of(const SDTProbe_t *probe, uintptr_t entry)
{
	const struct sdt_provider *provider = (const struct sdt_provider *)probe->provider;

	sdt_acquire(); /* orders the writes that precede the store of the address */
	const size_t index = (entry - provider->sites) / SDT_SLOT;

	return &__atomic_load_n(&provider->observed, __ATOMIC_ACQUIRE)[index];
}

/*
 * append_to_all appends a fire to several recordings, or in a forked child that has no recording
 * yet, or with fewer values than arguments: the other arguments are 0, as at the site.
 */
static __attribute__((noinline)) void append_to_all(const SDTProbe_t *probe, uintptr_t entry,
						    const uint64_t *values, int count)
{
	uint32_t skipped =
		__atomic_load_n(&sdt_record_waits, __ATOMIC_RELAXED) ? sdt_record_in_child() : 0;
	const struct sdt_observation *of = observation_of(probe, entry);
	uint32_t sinks = __atomic_load_n(&of->sinks, __ATOMIC_ACQUIRE) & ~skipped;
	uint64_t all[SDT_MAX_ARGUMENTS] = {0};

	if (count < of->count) {
		for (int i = 0; i < count; i++)
			all[i] = values[i];
		values = all;
	}
	for (; sinks; sinks &= sinks - 1) {
		const struct sdt_sink *sink = &sdt_sinks[__builtin_ctz(sinks)];
		struct sdt_writer *writer = __atomic_load_n(&sink->writer, __ATOMIC_RELAXED);

		if (writer)
			append_fire(writer, of, values);
	}
}

/*
 * sdt_append_fire appends a fire to the recordings that have its probe. `entry` is the entry of the
 * probe's slot, and `count` is the number of values. It reads only public members of the probe,
 * which may be a copy.
 */
void sdt_append_fire(const SDTProbe_t *probe, uintptr_t entry, const uint64_t *values, int count)
{
	if (__builtin_expect(!__atomic_load_n(&sdt_record_waits, __ATOMIC_RELAXED), 1)) {
		const struct sdt_observation *of = observation_of(probe, entry);
		struct sdt_writer *only = __atomic_load_n(&of->only, __ATOMIC_ACQUIRE);

		if (__builtin_expect(only && count >= of->count, 1)) {
			append_fire(only, of, values);
			return;
		}
	}
	append_to_all(probe, entry, values, count);
}
