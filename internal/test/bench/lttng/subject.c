/*
 * The C program that the table compares with where another process reads the events: the same
 * arguments in tracepoints of LTTng-UST. It speaks the language of ../subject.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench_tp.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* now is this thread's time on a processor: what other jobs take of the machine is not in it. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double fire_two(long n)
{
	double start = now();

	for (long i = 0; i < n; i++)
		lttng_ust_tracepoint(stapsdt_bench, two, (uint64_t)i, 200);
	return now() - start;
}

static double fire_text(long n)
{
	double start = now();

	for (long i = 0; i < n; i++)
		lttng_ust_tracepoint(stapsdt_bench, text, "/index/page.html", 200);
	return now() - start;
}

/* shared is what two threads do at once. */
struct shared {
	pthread_barrier_t begin;
	double (*run)(long n);
	long n;
};

struct thread {
	pthread_t id;
	struct shared *shared;
	double took;
};

static void *thread_main(void *data)
{
	struct thread *t = data;

	pthread_barrier_wait(&t->shared->begin);
	t->took = t->shared->run(t->shared->n);
	return NULL;
}

static double together(double (*run)(long n), long n)
{
	struct shared shared = {.run = run, .n = n};
	struct thread threads[2];

	pthread_barrier_init(&shared.begin, NULL, 2);
	for (int i = 0; i < 2; i++) {
		threads[i].shared = &shared;
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0)
			return -1;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i].id, NULL);
	pthread_barrier_destroy(&shared.begin);
	return (threads[0].took + threads[1].took) / 2;
}

static double two_together(long n)
{
	return together(fire_two, n);
}

static double text_together(long n)
{
	return together(fire_text, n);
}

static const struct {
	const char *name;
	double (*run)(long n);
} rows[] = {
	{"two", fire_two},
	{"text", fire_text},
	{"twotogether", two_together},
	{"texttogether", text_together},
};

int main(void)
{
	char line[64], name[32];
	long n;

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		size_t i = 0;

		if (sscanf(line, "%31s %ld", name, &n) != 2)
			return 2;
		while (i < sizeof rows / sizeof *rows && strcmp(rows[i].name, name) != 0)
			i++;
		if (i == sizeof rows / sizeof *rows)
			return 2;
		printf("took %.0f\n", rows[i].run(n));
		fflush(stdout);
	}
	return 0;
}
