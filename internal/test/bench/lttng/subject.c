/*
 * The C program that the table compares with where another process reads the events: the same
 * arguments in tracepoints of LTTng-UST. It speaks the language of ../subject.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench_tp.h"

#include <pthread.h>

#include "../rows.h"

static void fire_two(long n)
{
	for (long i = 0; i < n; i++)
		lttng_ust_tracepoint(stapsdt_bench, two, (uint64_t)i, 200);
}

static void fire_text(long n)
{
	for (long i = 0; i < n; i++)
		lttng_ust_tracepoint(stapsdt_bench, text, "/index/page.html", 200);
}

/* shared is what two threads do at once. */
struct shared {
	pthread_barrier_t begin;
	void (*loop)(long n);
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
	t->took = timed(t->shared->loop, t->shared->n);
	return NULL;
}

static double together(void (*loop)(long n), long n)
{
	struct shared shared = {.loop = loop, .n = n};
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

static const struct row rows[] = {
	{"two", fire_two, NULL},
	{"text", fire_text, NULL},
	{"twotogether", NULL, two_together},
	{"texttogether", NULL, text_together},
};

int main(void)
{
	return serve(rows, sizeof rows / sizeof *rows);
}
