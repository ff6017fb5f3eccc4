/* Tests of the readings of the clocks in a recording. */
#include "test.h"

#include "../recorder/recorder.h"

#include <signal.h>
#include <sys/mman.h>
#include <time.h>

/* What a process finds that does nothing but read the clocks: how far the time of day is ahead. */
struct found {
	volatile bool begun, over;
	volatile uint64_t least, most;
};

static void read_always(struct found *found, const struct sdt_clock *clock)
{
	while (!found->over) {
		struct sdt_reading reading = sdt_clock_read(clock);
		uint64_t ahead = reading.realtime - reading.monotonic;

		if (ahead < found->least)
			found->least = ahead;
		if (ahead > found->most)
			found->most = ahead;
		found->begun = true;
	}
}

static void wait_for(long milliseconds)
{
	struct timespec time = {.tv_nsec = milliseconds * 1000000};

	nanosleep(&time, NULL);
}

/*
 * stopped stops a process that does nothing but read the clocks. Every tenth time, this is between
 * two clocks of a reading that would otherwise be the best.
 */
static void stopped(const struct sdt_clock *clock)
{
	enum { STOPS = 100, STOPPED = 5 /* ms */ };
	struct found *found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	CHECK(found != MAP_FAILED);
	if (found == MAP_FAILED)
		return;
	found->least = UINT64_MAX;
	child = fork();
	if (child == 0) {
		read_always(found, clock);
		_exit(0);
	}
	CHECK(child > 0);
	while (child > 0 && !found->begun)
		wait_for(1);
	for (int i = 0; child > 0 && i < STOPS; i++) {
		CHECK(kill(child, SIGSTOP) == 0);
		wait_for(STOPPED);
		CHECK(kill(child, SIGCONT) == 0);
		wait_for(1);
	}
	found->over = true;
	CHECK(child <= 0 || waitpid(child, NULL, 0) == child);
	CHECK(found->most - found->least < STOPPED * 1000000 / 2);
	munmap(found, sizeof *found);
}

static void this_clock(void)
{
	struct sdt_clock clock = sdt_clock_choose();

	stopped(&clock);
}

static void monotonic_clock(void)
{
	struct sdt_clock clock = {.second = 1000000000};

	stopped(&clock);
}

static const struct test tests[] = {
	{"a reading that is interrupted", this_clock},
	{"a reading that is interrupted, by CLOCK_MONOTONIC", monotonic_clock},
};

int main(void) { return test_main("recordclock", tests, sizeof tests / sizeof tests[0]); }
