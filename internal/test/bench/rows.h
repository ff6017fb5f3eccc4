/*
 * The language of subject, for programs in C: for each line "ROW N", the program answers with the nanoseconds that the row's loop
 * took for N, or with what its function returned.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

struct row {
	const char *name;
	void (*loop)(long n);
	double (*run)(long n); /* if there is no loop */
};

/* now is this thread's time on a processor: what other jobs take of the machine is not in it. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double timed(void (*loop)(long n), long n)
{
	double start = now();

	loop(n);
	return now() - start;
}

/* serve answers to the end of the input. It returns the program's status. */
static int serve(const struct row *rows, size_t count)
{
	char line[64], name[32];
	long n;

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		size_t i = 0;

		if (sscanf(line, "%31s %ld", name, &n) != 2)
			return 2;
		while (i < count && strcmp(rows[i].name, name) != 0)
			i++;
		if (i == count)
			return 2;
		printf("took %.0f\n", rows[i].loop ? timed(rows[i].loop, n) : rows[i].run(n));
		fflush(stdout);
	}
	return 0;
}
