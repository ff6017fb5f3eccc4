/* The clock of a recording: a counter of the processor where it can be trusted. */
#include "recorder.h"

#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* is_invariant reports whether the counter neither stops nor changes its rate. */
static bool is_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1U << 8);
}
#else
static bool is_invariant(void) { return false; }
#endif

/*
 * is_kernel_clock reports whether the kernel, which compares and watches the processors, uses
 * the counter.
 */
static bool is_kernel_clock(void)
{
	char source[8];

	(void)sdt_file_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
	return strcmp(source, "tsc\n") == 0;
}

static uint64_t read_clock(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t sdt_monotonic(void) { return read_clock(CLOCK_MONOTONIC); }

struct sdt_clock sdt_clock_choose(void)
{
	struct sdt_clock clock = {.second = 1000000000};
	uint64_t start, ticks, now;

	clock.counter = is_invariant() && is_kernel_clock();
	if (!clock.counter)
		return clock;
	/* A rough rate suffices: it decides only how often readings are written. */
	start = sdt_monotonic();
	ticks = sdt_clock_now(&clock);
	do
		now = sdt_monotonic();
	while (now - start < 50000);
	clock.second = (sdt_clock_now(&clock) - ticks) * 1000000000 / (now - start);
	return clock;
}

/*
 * sdt_clock_read reads the clocks three times, and returns the reading that took the
 * shortest time: the thread may have been interrupted during the others, also before it has
 * read the time of day.
 */
struct sdt_reading sdt_clock_read(const struct sdt_clock *clock)
{
	struct sdt_reading best = {0};
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t before = sdt_clock_now(clock), monotonic = sdt_monotonic();
		uint64_t after = sdt_clock_now(clock);
		uint64_t realtime = read_clock(CLOCK_REALTIME);
		uint64_t took = sdt_clock_now(clock) - before;

		if (took >= shortest)
			continue;
		shortest = took;
		best = (struct sdt_reading){before + (after - before) / 2, monotonic, realtime};
	}
	if (!clock->counter)
		best.ticks = best.monotonic;
	return best;
}

void sdt_put_reading(unsigned char *to, const struct sdt_reading *reading)
{
	sdt_put_u64(to, reading->ticks);
	sdt_put_u64(to + 8, reading->monotonic);
	sdt_put_u64(to + 16, reading->realtime);
}
