/*
 * The declarations of the files that record events: recordings, their clock, and their
 * owners.
 */
#ifndef SDT_RECORDER_H
#define SDT_RECORDER_H

#include "../private.h"

#include <endian.h>
#include <errno.h>
#include <sys/stat.h>

/* The layout: see recording.def. */
#define SDT_LAYOUT(name, value) static const uint64_t SDT_##name __attribute__((unused)) = (value);
#include "recording.def"
#undef SDT_LAYOUT

static const char sdt_magic[8] __attribute__((unused)) = "stapsdt\x1a"; /* without a NUL */

static inline void sdt_put_u16(unsigned char *to, uint64_t value)
{
	uint16_t little = htole16((uint16_t)value);

	memcpy(to, &little, sizeof little);
}

static inline void sdt_put_u32(unsigned char *to, uint64_t value)
{
	uint32_t little = htole32((uint32_t)value);

	memcpy(to, &little, sizeof little);
}

static inline void sdt_put_u64(unsigned char *to, uint64_t value)
{
	uint64_t little = htole64(value);

	memcpy(to, &little, sizeof little);
}

static inline uint32_t sdt_get_u16(const unsigned char *from)
{
	return (uint32_t)from[0] | (uint32_t)from[1] << 8;
}

static inline uint32_t sdt_get_u32(const unsigned char *from)
{
	return sdt_get_u16(from) | sdt_get_u16(from + 2) << 16;
}

static inline uint64_t sdt_get_u64(const unsigned char *from)
{
	return sdt_get_u32(from) | (uint64_t)sdt_get_u32(from + 4) << 32;
}

/*
 * The thread sanitizer does not know fences, but this operation orders threads like a
 * fence.
 */
#if defined(__SANITIZE_THREAD__)
static inline void sdt_fence(void)
{
	uint32_t word = 0;

	__atomic_exchange_n(&word, 1, __ATOMIC_SEQ_CST);
}

static inline void sdt_acquire(void) {}
#else
static inline void sdt_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void sdt_acquire(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
#endif

/*
 * clock.c: the clock of a recording, and readings of all three clocks. Functions that a fire
 * calls are async-signal-safe.
 */
struct sdt_clock {
	bool counter;    /* the TSC, or else CLOCK_MONOTONIC */
	uint64_t second; /* in ticks, roughly */
};

struct sdt_reading {
	uint64_t ticks, monotonic, realtime;
};

struct sdt_clock sdt_clock_choose(void);
uint64_t sdt_monotonic(void);
struct sdt_reading sdt_clock_read(const struct sdt_clock *clock);
void sdt_put_reading(unsigned char *to, const struct sdt_reading *reading);

static inline uint64_t sdt_clock_now(const struct sdt_clock *clock)
{
#if defined(__x86_64__) || defined(__i386__)
	if (clock->counter)
		return __builtin_ia32_rdtsc();
#endif
	(void)clock;
	return sdt_monotonic();
}

/*
 * thread.c: the thread that fires. glibc keeps a few bytes for variables like this one, so
 * that the first use allocates nothing and a signal handler may fire. musl refuses the model
 * in a library that dlopen loads, and allocates the variables of every thread beforehand.
 */
#if defined(__GLIBC__)
#define SDT_THREAD_MODEL __attribute__((tls_model("initial-exec")))
#else
#define SDT_THREAD_MODEL
#endif
extern __thread uint32_t sdt_thread_number SDT_THREAD_MODEL;
uint32_t sdt_thread_ask(void);

/* sdt_thread_id returns the kernel's ID of the calling thread, which it requests once. */
static inline uint32_t sdt_thread_id(void)
{
	uint32_t number = sdt_thread_number;

	return __builtin_expect(number != 0, 1) ? number : sdt_thread_ask();
}

void sdt_thread_forked(void);
int sdt_cancel_hold(void);
void sdt_cancel_release(int before);
bool sdt_thread_alive(uint32_t thread);

/*
 * writer.c: the writer of a recording in memory. It is never freed, because a fire may be about
 * to test whether it is alive.
 */
struct sdt_writer;

/* The number of a probe for which the recording has no room: its events are dropped. */
#define SDT_NO_NUMBER UINT32_MAX
#define SDT_NOT_ASKED (UINT32_MAX - 1) /* the recording does not have the probe */

/* The memory of a recording, and the process that it describes. */
struct sdt_memory {
	unsigned char *bytes;
	uint64_t chunks;
	uint32_t pid;
};

uint64_t sdt_recording_chunks(uint64_t bytes);
uint64_t sdt_recording_size(uint64_t chunks);
struct sdt_writer *sdt_writer_make(void);
int sdt_writer_begin(struct sdt_writer *writer, const struct sdt_memory *memory, int sink);
void sdt_writer_start(struct sdt_writer *writer);
bool sdt_writer_stop(struct sdt_writer *writer);
void sdt_writer_exit(const struct sdt_writer *writer);
void sdt_writer_forget(struct sdt_writer *writer);
void sdt_writer_drop(struct sdt_writer *writer, uint64_t count);

/* table.c: the numbers of probes. */
uint32_t sdt_writer_add(struct sdt_writer *writer, const struct sdt_provider *provider,
			const struct sdt_probe *probe);

/*
 * describe.c: the description of the process in the head, and the entry of a probe in the
 * table.
 */
void sdt_describe_process(unsigned char *head);
uint64_t sdt_start_time(void);
size_t sdt_describe_probe(const struct sdt_provider *provider, const struct sdt_probe *probe,
			  unsigned char *entry, size_t size);

/*
 * room.c: the memory that the process can still use, or UINT64_MAX if that cannot be read. It is
 * unknown if no limit was seen, but the process may have one that it does not see, as in a pod.
 */
uint64_t sdt_memory_room(bool *unknown);

/*
 * recordfile.c: the file of a recording. A forked child calls it too: nothing in it allocates
 * memory or takes a lock of the C library. It writes an error line.
 */
struct sdt_recordfile {
	struct sdt_memory memory;
	uint64_t size;
	int fd;
	int directory; /* until sdt_recordfile_leave, or -1 */
	dev_t dev;     /* identifies the file, with ino */
	ino_t ino;
	char path[SDT_PATH_SIZE];
};

enum { SDT_MIN_RECORDING = 256 << 10, SDT_MAX_RECORDING = 1 << 30 }; /* bytes of events */

int sdt_recordfile_create(struct sdt_recordfile *file, const char *path, uint64_t bytes, bool makes,
			  char *line);
int sdt_recordfile_publish(struct sdt_recordfile *file, const char *path, char *line);
void sdt_recordfile_leave(struct sdt_recordfile *file);
void sdt_recordfile_discard(struct sdt_recordfile *file);
void sdt_recordfile_close(struct sdt_recordfile *file, bool unmap);

/* entries.c: the entries of a directory. Nothing there allocates memory. */
struct sdt_entries {
	_Alignas(uint64_t) char bytes[8192];
};
typedef bool sdt_visit_fn(void *with, const char *name);
void sdt_directory_visit(int at, const char *directory, struct sdt_entries *entries,
			 sdt_visit_fn *visit, void *with);

/* way.c: the directory of a recording, which is used through its descriptor. */
int sdt_way_open(const char *directory, bool makes, char *line);
const char *sdt_way_name(const char *path);
int sdt_way_rename(int directory, const char *from, const char *to);
int sdt_way_stat(int directory, const char *path, struct stat *status);

/* previous.c: the recordings of earlier processes, and the names of recordings. */
enum { SDT_SUFFIX_SIZE = 48 }; /* more than the longest suffix of a path */

int sdt_recordfile_move_away(int directory, const char *path, char *line);
int sdt_recordfile_expand(const char *pattern, uint32_t pid, char path[SDT_PATH_SIZE]);
void sdt_recordfile_tidy(const struct sdt_recordfile *file, const char *path, const char *pattern);

/*
 * patterns.c: the probes that a watcher has requested. Each pattern consists of the length of the
 * provider's pattern and the length of the probe's pattern, in 2 bytes each, and the two patterns.
 */
struct sdt_patterns {
	uint32_t count;
	const unsigned char *bytes;
};

bool sdt_patterns_select(const struct sdt_patterns *patterns, const char *provider,
			 const char *probe);

/*
 * observe.c: the loaded providers, and the recordings that their fires are appended to, which are
 * called sinks: a file, and the memory of each watcher. Callers hold the lock, except
 * those of sdt_observe_load and sdt_observe_unload, which take it.
 */
enum { SDT_FILE_SINK = 0, SDT_WATCHERS = 8, SDT_SINKS = 1 + SDT_WATCHERS };

/*
 * A sink is a recording and the patterns of its probes: all probes if patterns is NULL.
 */
struct sdt_sink {
	struct sdt_writer *writer;
	const struct sdt_patterns *patterns;
	bool active;
};

extern struct sdt_sink sdt_sinks[SDT_SINKS];

/*
 * The sinks of a probe. A loaded provider has an observation for each probe, in the order of their
 * sites, or none.
 */
struct sdt_observation {
	struct sdt_writer *only; /* the writer of the only sink that has the probe, or NULL */
	uint32_t sinks;          /* a bit for each sink that has the probe */
	uint32_t size;           /* of a record without the texts */
	const struct sdt_probe *probe;
	uint8_t count; /* of its arguments */
	bool has_texts;
	uint32_t numbers[SDT_SINKS]; /* they change only while no fire is in the writer */
};

void sdt_observe_lock(void);
bool sdt_observe_trylock(void);
void sdt_observe_unlock(void);
int sdt_observe_begin(int sink, const struct sdt_memory *memory,
		      const struct sdt_patterns *patterns);
bool sdt_observe_end(int sink);
void sdt_observe_drop(int sink, uint64_t count);
void sdt_observe_forked(uint32_t kept);
const struct sdt_provider *sdt_observe_next(const struct sdt_provider *provider);

/* record.c: the recording in a file, which a forked child begins when it fires. */
extern uint32_t sdt_record_waits;
uint32_t sdt_record_in_child(void);
int sdt_record_begin(const char *path, uint64_t bytes, char *line);
void sdt_record_end(void);
void sdt_record_failed(const char *what, const char *line);
void sdt_record_forked(void);
void sdt_record_before_load(void);
void sdt_record_exit(void);
bool sdt_is_control(const char *character);
void sdt_complain(const char *what, const char *reason);

/* socket.c: the thread that serves watchers. */
int sdt_socket_begin(char *line);
void sdt_socket_end(void);
void sdt_socket_failed(const char *what, const char *line);
void sdt_socket_before_fork(void);
void sdt_socket_after_fork(void);
void sdt_socket_forked(void);
void sdt_socket_remove(void);

#endif
