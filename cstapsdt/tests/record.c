/* Tests of recordings: the values in them, and that each event is in one or counted as lost. */
#include "test.h"

#include "recording.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static char directory[] = "/dev/shm/sdtrecord-XXXXXX";
static char path[64];

static SDTProbe_t *numbers, *text;

static void load(void)
{
	const SDTArgument_t arguments[] = {{"text", sdt_string}, {"n", int32}, {"also", sdt_string}};
	const ArgType_t types[] = {uint8, int8, uint16, int16, uint32, int32, uint64, int64};

	provider = test_provider("record");
	numbers = providerAddProbeV(provider, "numbers", 8, types);
	probe = text = providerAddNamedProbe(provider, "text", 3, arguments);
	CHECK(providerLoad(provider) == 0);
}

static void unload(void) { providerDestroy(provider); }

static void record(size_t size) { rec_begin(path, size); }

static void stop(struct recording *r) { rec_stop(r, path); }

static void fire_number(uint64_t n)
{
	probeFire(numbers, n, n, n, n, n, n, n, n);
}

static uint64_t word(const char *string) { return (uint64_t)(uintptr_t)string; }

/* A number has its size and sign, and an address that was not declared a string is not read. */
static void values(void)
{
	const uint64_t expected[] = {0xff, UINT64_MAX, 0xffff, UINT64_MAX, UINT32_MAX, UINT64_MAX,
				     UINT64_MAX, UINT64_MAX};
	struct recording r;

	load();
	CHECK(!probeIsEnabled(numbers));
	fire_number(1);
	record(0);
	CHECK(probeIsEnabled(numbers));
	fire_number(8);
	fire_number(UINT64_MAX);
	stop(&r);
	CHECK(!probeIsEnabled(numbers));
	fire_number(1);
	CHECK(r.seen == 2 && rec_total(&r) == 2);
	for (int i = 0; r.last[0] && i < 8; i++)
		CHECK(rec_word(r.last[0], i) == expected[i]);
	CHECK(r.last[0] && rec_number(r.last[0] + 16, 8) ==
				   ((uint64_t)getpid() << 32 | (uint64_t)syscall(SYS_gettid)));
	rec_free(&r);
	unload();
}

/* dirty_stack leaves words that no fire may record. */
static __attribute__((noinline)) void dirty_stack(void)
{
	uint64_t words[512];

	memset(words, 0xff, sizeof words);
	__asm__ volatile("" : : "r"(words) : "memory");
}

/* An argument that a program does not pass, because it has lowered argCount, is 0. */
static void fewer_values(void)
{
	const uint64_t three[] = {1, 2, 3};
	struct recording r;

	load();
	record(0);
	numbers->argCount = 2;
	dirty_stack();
	probeFire(numbers, (uint64_t)1, (uint64_t)2);
	numbers->argCount = 3;
	dirty_stack();
	probeFireV(numbers, three);
	text->argCount = 2;
	dirty_stack();
	probeFire(text, word("text"), (uint64_t)1);
	stop(&r);
	CHECK(r.of_probe[0] == 2 && r.of_probe[1] == 1 && rec_total(&r) == 3);
	for (int i = 0; r.last[0] && i < 8; i++)
		CHECK(rec_word(r.last[0], i) == (i < 3 ? three[i] : 0));
	CHECK(r.last[1] && rec_word(r.last[1], 2) == strlen("(null)"));
	rec_free(&r);
	unload();
}

/* What a program writes to argCount changes neither the image nor the description of a probe. */
static void other_counts(void)
{
	const uint64_t twelve[SDT_MAX_ARGUMENTS] = {0};
	const int counts[] = {0, 1, SDT_MAX_ARGUMENTS, SDT_MAX_ARGUMENTS + 1, 200, 1 << 20, -1};
	size_t size, other_size;
	void *image, *other;
	struct recording r;

	load();
	CHECK(providerImage(provider, &image, &size) == 0);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		providerUnload(provider);
		text->argCount = numbers->argCount = counts[i];
		CHECK(providerImage(provider, &other, &other_size) == 0);
		CHECK(size == other_size && memcmp(image, other, size) == 0);
		free(other);
		record(0);
		CHECK(providerLoad(provider) == 0);
		probeFireV(numbers, twelve);
		numbers->argCount = 8;
		fire_number(2);
		stop(&r);
		CHECK(r.of_probe[0] == (counts[i] >= 0 && counts[i] <= SDT_MAX_ARGUMENTS ? 2 : 1));
		CHECK(rec_total(&r) == r.of_probe[0]);
		for (int k = 0; r.last[0] && k < 8; k++)
			CHECK(rec_word(r.last[0], k) == 2);
		rec_free(&r);
	}
	free(image);
	unload();
}

static void expect_text(const char *given, const char *expected, size_t length)
{
	const unsigned char *at;
	struct recording r;

	record(0);
	probeFire(text, word(given), (uint64_t)-5, word("after"));
	stop(&r);
	CHECK(r.seen == 1 && r.last[1]);
	if (r.last[1]) {
		at = r.last[1] + REC_RECORD_HEAD + 24;
		CHECK(rec_word(r.last[1], 0) == length && memcmp(at, expected, length) == 0);
		CHECK(rec_word(r.last[1], 1) == (uint64_t)-5 && rec_word(r.last[1], 2) == 5);
		CHECK(at[length] == 0);
		CHECK(memcmp(at + ((length + 8) & ~(size_t)7), "after\0\0", 8) == 0);
	}
	rec_free(&r);
}

/* A text is copied up to its NUL, or to 4,095 bytes; what follows it may not be there. */
static void texts(void)
{
	char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *end = pages + 2 * 4096;

	memset(pages, 'x', 2 * 4096);
	CHECK(munmap(end, 2 * 4096) == 0);
	load();
	expect_text(NULL, "(null)", 6);
	expect_text("", "", 0);
	expect_text("1234567", "1234567", 7);
	expect_text("12345678", "12345678", 8);
	expect_text(end - 4095, end - 4095, 4095);
	end[-1] = '\0';
	expect_text(end - 9, "xxxxxxxx", 8);
	expect_text(end - 4096, end - 4096, 4095);
	expect_text(end - 8000, end - 8000, 4095);
	unload();
	munmap(pages, 2 * 4096);
}

/* What the recording replaces is counted. */
static void overwritten(void)
{
	const uint64_t times = (uint64_t)test_rounds(100000);
	struct recording r;
	uint64_t n = 0;

	load();
	record(1);
	CHECK(sdtRecord(path, 0) == -1 && strstr(sdtError(), "records to"));
	while (n < times)
		fire_number(n++);
	stop(&r);
	CHECK(rec_total(&r) == n && r.seen < n && r.seen > 1000);
	CHECK(r.last[0] && rec_word(r.last[0], 6) < n);
	rec_free(&r);
	unload();
}

/* A provider that is loaded later is recorded, and one that is loaded again has its numbers. */
static void later(void)
{
	SDTProvider_t *other = test_provider("later");
	SDTProbe_t *last = providerAddProbe(other, "later", 0);
	uint64_t table = 0;
	struct recording r;

	load();
	record(0);
	for (int i = 0; i < 3; i++) {
		CHECK(providerLoad(other) == 0);
		probeFire(last);
		CHECK(providerUnload(other) == 0);
		probeFire(last);
		CHECK(rec_read(&r, path));
		CHECK(table == 0 || table == rec_number(r.bytes + 24, 8));
		table = rec_number(r.bytes + 24, 8);
		rec_free(&r);
	}
	CHECK(providerAddProbe(other, "last", 0) != NULL && providerLoad(other) == 0);
	probeFire(&other->probes->next->probe);
	providerDestroy(other);
	stop(&r);
	CHECK(r.seen == 4 && r.of_probe[2] == 3 && r.of_probe[3] == 1);
	rec_free(&r);
	unload();
}

typedef void (*fire8_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* A copy of a recorded probe is recorded, and one of an idle probe is not. A wrapper that inlines the original's test, and calls the site itself, does no harm. */
static void wrappers(void)
{
	SDTProbe_t copied, idle;
	struct recording r;

	load();
	idle = *numbers;
	record(0);
	copied = *numbers;
	CHECK(!probeIsEnabled(&idle));
	probeFire(&idle, word(""), word(""), word(""), word(""), word(""), word(""), word(""), word(""));
	probeFire(&copied, word(""), word(""), word(""), word(""), word(""), word(""), word(""), word(""));
#if defined(__x86_64__)
	CHECK((*(unsigned char *)numbers->_fire & 0x90) != 0x90);
#endif
	((fire8_fn)numbers->_fire)(1, 2, 3, 4, 5, 6, 7, 8);
	stop(&r);
	CHECK(rec_total(&r) == 1);
	CHECK(probeIsEnabled(&copied)); /* which is wrong now, and harmless */
	probeFire(&copied, word(""), word(""), word(""), word(""), word(""), word(""), word(""), word(""));
	rec_free(&r);
	unload();
}

static void in_handler(int signal)
{
	for (int i = 0; i < 3; i++)
		fire((uint64_t)signal);
}

/* A handler that interrupts a record, or whatever else a fire does, does not wait for it. */
static void signals(void)
{
	/* In valgrind a handler takes longer than the shorter interval, so that nothing else would run. */
	const struct timeval interval = {0, test_in_valgrind() ? 5000 : 100};
	const struct itimerval often = {interval, interval}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_RESTART};
	const uint64_t times = (uint64_t)test_rounds(100000);
	struct recording r;

	load();
	record(1);
	atomic_store(&fired, 0);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	fire_times(times);
	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	signal(SIGALRM, SIG_IGN);
	stop(&r);
	CHECK(atomic_load(&fired) > times);
	CHECK(rec_total(&r) == atomic_load(&fired));
	rec_free(&r);
	unload();
}

static void *fire_some(void *unused)
{
	fire_times(500);
	return unused;
}

/* Threads that come and go, many more than there are shards. */
static void threads(void)
{
	enum { AT_ONCE = 100 };
	const int rounds = 1 + test_rounds(4);
	pthread_t all[AT_ONCE];
	struct recording r;

	load();
	record(0);
	atomic_store(&fired, 0);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < AT_ONCE; i++)
			CHECK(pthread_create(&all[i], NULL, fire_some, NULL) == 0);
		for (int i = 0; i < AT_ONCE; i++)
			CHECK(pthread_join(all[i], NULL) == 0);
	}
	stop(&r);
	CHECK(atomic_load(&fired) == AT_ONCE * (unsigned long long)rounds * 500);
	CHECK(rec_total(&r) == atomic_load(&fired));
	if (r.dropped)
		printf("# %llu of %llu events found no shard\n", (unsigned long long)r.dropped,
		       (unsigned long long)atomic_load(&fired));
	rec_free(&r);
	unload();
}

/* A recording is ended and another one begun while threads fire: none of them is in memory that is gone. */
static void while_firing(void)
{
	struct recording r;
	struct storm storm;

	load();
	begin_storm(&storm, 4, NULL);
	for (int i = 0; i < test_rounds(50); i++) {
		record(i % 2 ? 1 : 4 << 20);
		usleep(500);
		stop(&r);
		CHECK(r.seen <= r.committed);
		rec_free(&r);
	}
	end_storm(&storm);
	unload();
}

/* address_of_recording returns where the recording is mapped. */
static void *address_of_recording(size_t *size)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	unsigned long start = 0, end = 0;

	while (fgets(line, sizeof line, maps) && !strstr(line, path))
		;
	CHECK(sscanf(line, "%lx-%lx", &start, &end) == 2);
	fclose(maps);
	*size = end - start;
	return (void *)start;
}

/* wait_for_fires returns when so many more events were fired. */
static void wait_for_fires(unsigned long long count)
{
	unsigned long long from = atomic_load(&fired);

	while (atomic_load(&fired) < from + count)
		usleep(10);
}

/* What is mapped where a recording was stays as it is, also while a probe fires for which the table had no room. */
static void mapped_again(void)
{
	enum { LONG = 40000 };
	SDTProvider_t *full = test_provider("full");
	SDTProbe_t *unknown = NULL;
	char *name = malloc(LONG + 1);
	struct storm storm;

	load();
	memset(name, 'n', LONG);
	name[LONG] = '\0';
	for (char first = 'a'; first <= 'b'; first++) {
		*name = first;
		unknown = providerAddProbe(full, name, 0);
	}
	CHECK(providerLoad(full) == 0);
	begin_storm(&storm, 4, unknown);
	for (int i = 0; i < test_rounds(30); i++) {
		char *at, *mapped;
		size_t size;

		record(1);
		at = address_of_recording(&size);
		wait_for_fires(20);
		sdtStopRecording();
		mapped = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		CHECK(mapped == at);
		wait_for_fires(20);
		CHECK(*mapped == 0 && memcmp(mapped, mapped + 1, size - 1) == 0);
		munmap(mapped, size);
		unlink(path);
	}
	end_storm(&storm);
	providerDestroy(full);
	free(name);
	unload();
}

static const struct test tests[] = {
	{"values", values},
	{"fewer values", fewer_values},
	{"other counts", other_counts},
	{"texts", texts},
	{"what is replaced", overwritten},
	{"providers that are loaded later", later},
	{"wrappers", wrappers},
	{"signal handlers", signals},
	{"threads that come and go", threads},
	{"begun and ended while threads fire", while_firing},
	{"memory that is mapped again", mapped_again},
};

int main(void) { return rec_main("record", tests, sizeof tests / sizeof tests[0], directory, path); }
