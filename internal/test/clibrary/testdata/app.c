/*
 * A program with the C library: app values, or app storm THREADS LONGEST. It says "ready", obeys the lines of its input, and ends
 * at their end.
 */
#define _GNU_SOURCE
#include "libstapsdt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static SDTProvider_t *provider;
static SDTProbe_t *numbers, *texts, *unnamed, *event;

static uint64_t word(const void *address) { return (uint64_t)(uintptr_t)address; }

static void define(void)
{
	static const SDTArgument_t sizes[] = {{"u8", uint8},   {"i8", int8},   {"u16", uint16}, {"i16", int16},
					      {"u32", uint32}, {"i32", int32}, {"u64", uint64}, {"i64", int64}};
	static const SDTArgument_t strings[] = {{"path", sdt_string}, {"status", int32}, {"none", sdt_string}};
	static const SDTArgument_t counted[] = {
		{"thread", uint64}, {"n", uint64}, {"check", uint64}, {"text", sdt_string}};

	provider = providerInit("capp");
	numbers = providerAddNamedProbe(provider, "numbers", 8, sizes);
	texts = providerAddNamedProbe(provider, "texts", 3, strings);
	unnamed = providerAddProbe(provider, "unnamed", 2, uint64, int8);
	event = providerAddNamedProbe(provider, "event", 4, counted);
	if (providerLoad(provider) != 0) {
		fprintf(stderr, "%s\n", providerError(provider));
		exit(1);
	}
}

static void fire_values(void)
{
	const uint64_t least[] = {0, (uint64_t)-128, 0, (uint64_t)-32768, 0, (uint64_t)INT32_MIN, 0, (uint64_t)INT64_MIN};
	char longest[5000];

	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	probeFireV(numbers, least);
	probeFire(numbers, ~(uint64_t)0, (uint64_t)127, ~(uint64_t)0, (uint64_t)32767, ~(uint64_t)0, (uint64_t)INT32_MAX,
		  ~(uint64_t)0, (uint64_t)INT64_MAX);
	probeFire(texts, word("/index"), (uint64_t)200, (uint64_t)0);
	probeFire(texts, word(longest), (uint64_t)-1, word(""));
	probeFire(unnamed, (uint64_t)1, (uint64_t)-3); /* an address that is not there, to whoever reads it */
}

static atomic_uint started;
static atomic_bool ending;
static size_t longest_text;
static char *taken;

/* storm fires events that say whether they are whole, in the order of n. */
static void *storm(void *argument)
{
	uint64_t thread = (uint64_t)(uintptr_t)argument, n;
	char letters[4096], text[sizeof letters];

	for (size_t i = 0; i < sizeof letters; i++)
		letters[i] = (char)('a' + i % 26);

	for (n = 0; !atomic_load_explicit(&ending, memory_order_relaxed); n++) {
		size_t length = n % (longest_text + 1);

		memcpy(text, letters, length);
		text[length] = '\0';
		probeFire(event, thread, n, (thread << 60 ^ n) * 0x9e3779b97f4a7c15, word(text));
		if (n == 0)
			atomic_fetch_add(&started, 1);
	}
	return (void *)(uintptr_t)n;
}

static void fire_events(unsigned long count)
{
	for (uint64_t n = 0; n < count; n++)
		probeFire(event, (uint64_t)0, n, n * 0x9e3779b97f4a7c15, word(""));
}

/* fork_child forks a child that fires until its parent ends. */
static void fork_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			fire_events(1);
			usleep(1000);
		}
	}
	printf("child %d\n", (int)child);
}

static void obey(const char *line)
{
	unsigned long count;
	char path[100];

	if (sscanf(line, "fire %lu", &count) == 1) {
		fire_events(count);
		puts("done");
	} else if (sscanf(line, "take %lu", &count) == 1) { /* MB, to keep */
		taken = malloc(count << 20);
		if (!taken)
			exit(1);
		memset(taken, 1, count << 20);
		puts("done");
	} else if (strcmp(line, "fork\n") == 0)
		fork_child();
	else if (strcmp(line, "close\n") == 0) {
		for (int fd = 3; fd < 1000; fd++)
			close(fd);
		puts("closed");
	} else if (strcmp(line, "listen\n") == 0)
		printf("listens %d%s\n", sdtListen(), sdtError());
	else if (sscanf(line, "record %99s", path) == 1)
		printf("records %d%s\n", sdtRecord(path, 0), sdtError());
	else if (strcmp(line, "stop\n") == 0) {
		sdtStopListening();
		puts("stopped");
	} else if (strcmp(line, "exec\n") == 0)
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
	else if (strcmp(line, "enabled\n") == 0)
		printf("enabled %d\n", probeIsEnabled(event));
	else if (strcmp(line, "version\n") == 0)
		printf("version %d %d\n", sdtVersion(), SDT_VERSION);
	else if (strcmp(line, "leave\n") == 0)
		pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	unsigned threads = 0;
	unsigned long long total = 0;
	pthread_t all[16];
	char line[128];
	void *fired;

	if (argc > 3) {
		threads = (unsigned)atoi(argv[2]);
		longest_text = (size_t)atoi(argv[3]);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	define();
	if (argc > 1 && strcmp(argv[1], "values") == 0)
		fire_values();
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, storm, (void *)(uintptr_t)i);
	while (atomic_load(&started) < threads)
		usleep(100);
	printf("ready %d\n", probeIsEnabled(event));
	while (fgets(line, sizeof line, stdin))
		obey(line);
	atomic_store(&ending, true);
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(all[i], &fired);
		total += (uintptr_t)fired;
	}
	printf("fired %llu\n", total);
	if (threads > 0)
		providerDestroy(provider);
	return 0;
}
