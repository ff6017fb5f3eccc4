/* A small reader of recordings, which counts what their shards have. Package recording of Go reads them whole. */
#ifndef RECORDING_H
#define RECORDING_H

#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/statvfs.h>

enum {
	REC_HEAD = 4096,
	REC_CHUNK = 65536,
	REC_CHUNK_HEAD = 64,
	REC_RECORD_HEAD = 24,
	REC_SHARDS = 256,
	REC_PROBES = 64
};

struct recording {
	unsigned char *bytes;
	size_t size;
	uint64_t table, chunks, dropped;
	uint32_t shards, process;
	int ended;
	uint64_t seen, committed; /* events */
	uint64_t of_probe[REC_PROBES];
	const unsigned char *last[REC_PROBES]; /* a record of each probe */
};

static inline uint64_t rec_number(const unsigned char *at, int size)
{
	uint64_t value = 0;

	while (size-- > 0)
		value = value << 8 | at[size];
	return value;
}

/* rec_read_chunk counts the records of a chunk, and reports false if it is not whole. */
static inline int rec_read_chunk(struct recording *r, const unsigned char *chunk, uint64_t events[])
{
	const unsigned char *at = chunk + REC_CHUNK_HEAD, *end = at + rec_number(chunk + 48, 8);
	uint32_t shard = (uint32_t)rec_number(chunk + 8, 4);
	uint64_t count = 0;

	if (end > chunk + REC_CHUNK || shard >= r->shards)
		return 0;
	while (at < end) {
		uint64_t size = rec_number(at, 4), probe = rec_number(at + 4, 4);

		if (size < REC_RECORD_HEAD || size % 8 != 0 || size > (uint64_t)(end - at))
			return 0;
		if (probe < REC_PROBES) {
			count++;
			r->of_probe[probe]++;
			r->last[probe] = at;
		}
		at += size;
	}
	r->seen += count;
	count += rec_number(chunk + 16, 8);
	if (count > events[shard])
		events[shard] = count;
	return 1;
}

/* rec_parse reads a recording in memory, and reports false if it is not whole. */
static inline int rec_parse(struct recording *r, unsigned char *bytes, size_t size)
{
	static uint64_t events[REC_SHARDS];
	int ok = 1;

	*r = (struct recording){.bytes = bytes, .size = size};
	memset(events, 0, sizeof events);
	if (size < REC_HEAD)
		return 0;
	r->table = rec_number(bytes + 16, 8);
	r->chunks = rec_number(bytes + 32, 8);
	r->shards = (uint32_t)rec_number(bytes + 40, 4);
	r->process = (uint32_t)rec_number(bytes + 44, 4);
	r->dropped = rec_number(bytes + 96, 8);
	r->ended = rec_number(bytes + 104, 4) != 0;
	if (memcmp(bytes, "stapsdt\x1a", 8) != 0 || r->shards > REC_SHARDS ||
	    size != REC_HEAD + r->table + r->chunks * REC_CHUNK)
		return 0;
	for (uint64_t i = 0; i < r->chunks; i++) {
		const unsigned char *chunk = bytes + REC_HEAD + r->table + i * REC_CHUNK;

		if (rec_number(chunk, 8) != 0)
			ok = rec_read_chunk(r, chunk, events) && ok;
	}
	for (uint32_t i = 0; i < r->shards; i++)
		r->committed += events[i];
	return ok;
}

/* rec_read reads a file, and reports false if it is no whole recording. rec_free frees what it has. */
static inline int rec_read(struct recording *r, const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned char *bytes;
	size_t size;
	int ok;

	*r = (struct recording){0};
	if (!file)
		return 0;
	fseek(file, 0, SEEK_END);
	size = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(size + 1);
	ok = bytes && fread(bytes, 1, size, file) == size;
	fclose(file);
	ok = ok && rec_parse(r, bytes, size);
	r->bytes = bytes;
	return ok;
}

static inline void rec_free(struct recording *r) { free(r->bytes); }

/* rec_total returns how many events were committed or counted as lost. */
static inline uint64_t rec_total(const struct recording *r) { return r->committed + r->dropped; }

static inline uint64_t rec_word(const unsigned char *record, int i)
{
	return rec_number(record + REC_RECORD_HEAD + 8 * i, 8);
}

/* The provider that a test records, the probe that it fires, and how often that was. */
static SDTProvider_t *provider;
static SDTProbe_t *probe;
static atomic_ullong fired;

/* rec_load loads the provider with its probe, which has a text and a number. */
static inline void rec_load(const char *name)
{
	const SDTArgument_t arguments[] = {{"text", sdt_string}, {"n", uint64}};

	provider = test_provider(name);
	probe = providerAddNamedProbe(provider, "event", 2, arguments);
	CHECK(providerLoad(provider) == 0);
}

/* fire fires the probe with a text, a number and another text, which a probe of two arguments ignores. */
static inline void fire(uint64_t n)
{
	probeFire(probe, (uint64_t)(uintptr_t)"text", n, (uint64_t)(uintptr_t)"another");
	atomic_fetch_add(&fired, 1);
}

static inline void fire_times(uint64_t count)
{
	for (uint64_t n = 0; n < count; n++)
		fire(n);
}

/* A storm of threads that fire, and another probe too if there is one. */
struct storm {
	pthread_t threads[4];
	int count;
};

static atomic_bool ending;

static inline void *fire_always(void *other)
{
	while (!atomic_load(&ending)) {
		if (other)
			probeFire(other);
		fire(1);
	}
	return NULL;
}

/* begin_storm begins one of at most 4 threads, of which every other fires the other probe. */
static inline void begin_storm(struct storm *storm, int count, SDTProbe_t *other)
{
	storm->count = count;
	atomic_store(&ending, false);
	atomic_store(&fired, 0);
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&storm->threads[i], NULL, fire_always, i % 2 ? other : NULL) == 0);
}

static inline void end_storm(const struct storm *storm)
{
	atomic_store(&ending, true);
	for (int i = 0; i < storm->count; i++)
		CHECK(pthread_join(storm->threads[i], NULL) == 0);
}

static inline void rec_begin(const char *path, size_t size)
{
	CHECK(sdtRecord(path, size) == 0);
	if (*sdtError())
		printf("# %s\n", sdtError());
}

/* rec_refused expects that nothing is recorded, for that reason. */
static inline void rec_refused(const char *where, size_t size, const char *reason)
{
	CHECK(sdtRecord(where, size) == -1);
	CHECK(strstr(sdtError(), reason) != NULL);
	if (test_failures)
		printf("# %s\n", sdtError());
}

/* rec_stop ends the recording, and reads and removes it. */
static inline void rec_stop(struct recording *r, const char *path)
{
	sdtStopRecording();
	CHECK(rec_read(r, path));
	CHECK(r->ended && r->process == (uint32_t)getpid());
	unlink(path);
}

/* rec_expect expects a recording of a process with all of its events, and removes it. */
static inline void rec_expect(const char *file, pid_t process, uint64_t events)
{
	struct recording r;

	CHECK(rec_read(&r, file));
	CHECK(r.process == (uint32_t)process);
	CHECK(rec_total(&r) == events);
	if (test_failures)
		printf("# %s has %llu events of %llu\n", file, (unsigned long long)rec_total(&r),
		       (unsigned long long)events);
	rec_free(&r);
	CHECK(unlink(file) == 0);
}

/*
 * rec_main runs tests with a directory for files, whose name mkdtemp completes, and which they leave
 * empty. It is in /tmp where /dev/shm has little room, as in a container.
 */
static inline int rec_main(const char *suite, const struct test *tests, size_t count, char *directory, char *path)
{
	struct statvfs shm;
	int status;

	if (statvfs("/dev/shm", &shm) == 0 && (shm.f_bavail * shm.f_frsize) >> 28 == 0) {
		char *name = strrchr(directory, '/');

		memmove(directory + 4, name, strlen(name) + 1);
		memcpy(directory, "/tmp", 4);
	}
	if (!mkdtemp(directory))
		return 1;
	snprintf(path, 64, "%s/recording", directory);
	status = test_main(suite, tests, count);
	if (rmdir(directory) != 0) {
		printf("# %s is left\n", directory);
		status = 1;
	}
	return status;
}

#endif
