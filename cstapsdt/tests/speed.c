/* Measurements of the costs, in processor time, which other programs on a busy machine do not change much. */
#include "test.h"

#include <sys/mman.h>
#include <time.h>

/* microseconds returns the processor time of this process. */
static double microseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double smaller_number(double a, double b)
{
	return a < b ? a : b;
}

static SDTProvider_t *define_probes(int count)
{
	SDTProvider_t *provider = test_provider("speed");
	char name[32];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof name, "probe_%d", i);
		providerAddProbe(provider, name, 3, uint64, int32, uint8);
	}
	return provider;
}

static void one_image(void)
{
	SDTProvider_t *provider = define_probes(1);
	double best = 1e9;

	for (int i = 0; i < 2000; i++) {
		double start = microseconds();
		void *image;
		size_t size;

		CHECK(providerImage(provider, &image, &size) == 0);
		best = smaller_number(best, microseconds() - start);
		free(image);
	}
	printf("# one probe: image %.1f us\n", best);
	CHECK(best < 100);
	providerDestroy(provider);
}

/* load_time returns the shortest of three loads, in milliseconds. */
static double load_time(int count)
{
	double best = 1e9, add = microseconds();
	SDTProvider_t *provider = define_probes(count);

	add = microseconds() - add;
	for (int i = 0; i < 3; i++) {
		double start = microseconds();

		CHECK(providerLoad(provider) == 0);
		best = smaller_number(best, microseconds() - start);
		CHECK(providerUnload(provider) == 0);
	}
	printf("# %6d probes: define %.1f ms, load %.1f ms\n", count, add / 1e3, best / 1e3);
	providerDestroy(provider);
	return best / 1e3;
}

static void many_probes(void)
{
	double some, all;

	load_time(1);
	some = load_time(20000);
	all = load_time(100000);
	CHECK(some < 120);
	CHECK(all < 5 * some * 2); /* linear, with room for a cache that is too small */
}

static void idle_probe(void)
{
	SDTProvider_t *provider = define_probes(1);
	SDTProbe_t *probe = &provider->probes->probe;
	double fire = 1e9, enabled = 1e9, start;
	int n = 1000000;

	CHECK(providerLoad(provider) == 0);
	for (int k = 0; k < 20; k++) {
		start = microseconds();
		for (int i = 0; i < n; i++)
			probeFire(probe, (uint64_t)i, (uint64_t)i, (uint64_t)i);
		fire = smaller_number(fire, microseconds() - start);
		start = microseconds();
		for (int i = 0; i < n; i++)
			CHECK(!probeIsEnabled(probe));
		enabled = smaller_number(enabled, microseconds() - start);
	}
	fire *= 1000.0 / n;
	enabled *= 1000.0 / n;
	printf("# idle: probeFire %.2f ns, probeIsEnabled %.2f ns\n", fire, enabled);
	CHECK(fire < 20);
	providerDestroy(provider);
}

/* A recorded fire, beside a reading of the clock in the same run. */
static void recorded_probe(void)
{
	SDTProvider_t *provider = define_probes(1);
	SDTProbe_t *probe = &provider->probes->probe;
	double fire = 1e9, clock = 1e9, start;
	char path[64];
	int n = 100000;

	snprintf(path, sizeof path, "/dev/shm/sdttest%d-speed", (int)getpid());
	CHECK(providerLoad(provider) == 0 && sdtRecord(path, 4 << 20) == 0);
	for (int k = 0; k < 50; k++) {
		struct timespec now;

		start = microseconds();
		for (int i = 0; i < n; i++)
			probeFire(probe, (uint64_t)i, (uint64_t)i, (uint64_t)i);
		fire = smaller_number(fire, microseconds() - start);
		start = microseconds();
		for (int i = 0; i < n; i++)
			clock_gettime(CLOCK_MONOTONIC, &now);
		clock = smaller_number(clock, microseconds() - start);
	}
	fire *= 1000.0 / n;
	clock *= 1000.0 / n;
	printf("# recorded: probeFire %.1f ns, a reading of the clock %.1f ns\n", fire, clock);
	CHECK(fire < 3 * clock + 50); /* where the counter is not the clock, a fire reads that */
	sdtStopRecording();
	unlink(path);
	providerDestroy(provider);
}

static double wall(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* first_fire returns the medians of the time and the processor time that the first fire of a forked child takes. */
static void first_fire(SDTProbe_t *probe, double *time, double *processor)
{
	enum { CHILDREN = 101 };
	const size_t size = 2 * CHILDREN * sizeof(double);
	double *took = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		if (child == 0) {
			double start = wall(), used = microseconds();

			probeFire(probe, (uint64_t)1, (uint64_t)2, (uint64_t)3);
			took[i] = wall() - start;
			took[CHILDREN + i] = microseconds() - used;
			_exit(0);
		}
		CHECK(test_wait(child));
	}
	qsort(took, CHILDREN, sizeof *took, compare);
	qsort(took + CHILDREN, CHILDREN, sizeof *took, compare);
	*time = took[CHILDREN / 2];
	*processor = took[CHILDREN + CHILDREN / 2];
	munmap(took, size);
}

/* The first fire of a forked child makes the file of its recording, of the default size. */
static void forked_child(void)
{
	SDTProvider_t *provider = define_probes(1);
	SDTProbe_t *probe = &provider->probes->probe;
	double idle, recorded, processor;
	char directory[] = "/dev/shm/sdttest-speed-XXXXXX", path[64], command[64];

	CHECK(mkdtemp(directory) && providerLoad(provider) == 0);
	first_fire(probe, &idle, &processor);
	snprintf(path, sizeof path, "%s/recording", directory);
	CHECK(sdtRecord(path, 0) == 0);
	first_fire(probe, &recorded, &processor);
	printf("# the first fire of a forked child: %.0f us recorded, of which %.0f us of a processor, and %.0f us idle\n",
	       recorded, processor, idle);
	CHECK(processor < 10000);
	sdtStopRecording();
	snprintf(command, sizeof command, "rm -r %s", directory);
	CHECK(system(command) == 0);
	providerDestroy(provider);
}

static const struct test tests[] = {
	{"one image", one_image},
	{"20,000 probes", many_probes},
	{"idle", idle_probe},
	{"recorded", recorded_probe},
	{"forked child", forked_child},
};

TEST_MAIN("speed", tests)
