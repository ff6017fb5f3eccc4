/* Tests of how a process ends that records: what it has fired is in the file. */
#include "test.h"

#include "recording.h"

#include <sys/wait.h>

static char directory[] = "/dev/shm/sdtrecord-XXXXXX";
static char path[64];

static bool fires_at_end; /* in the child that is to */

static void begin(void)
{
	rec_load("recordend");
	rec_begin(path, 1);
}

/* expect waits for a child, and expects its recording, which says whether the child has ended it. */
static void expect(struct recording *r, pid_t child, bool ended)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(rec_read(r, path));
	CHECK(r->ended == ended && r->process == (uint32_t)child);
	unlink(path);
}

static void fire_at_exit(void)
{
	if (fires_at_end)
		fire(1);
}

__attribute__((destructor)) static void fire_in_destructor(void)
{
	if (!fires_at_end)
		return;
	fire(1);
	providerDestroy(provider);
}

/* Handlers of atexit and destructors are part of the program. */
static void destructors(void)
{
	struct recording r;
	pid_t child;

	if (test_in_valgrind()) /* a destructor closes libelf so late that the C library keeps it */
		return;
	child = fork();
	if (child == 0) {
		begin();
		fires_at_end = true;
		CHECK(atexit(fire_at_exit) == 0);
		fire(1);
		exit(test_failures != 0);
	}
	expect(&r, child, true);
	CHECK(rec_total(&r) == 3);
	rec_free(&r);
}

/* The recording ends when the process executes another program, which has nothing of it. */
static void executed(void)
{
	struct recording r;
	pid_t child = fork();

	if (child == 0) {
		begin();
		fire(1);
		fire(1);
		execl("/bin/sh", "sh", "-c", "! grep -q recording /proc/self/maps && ! ls -l /proc/self/fd | grep recording", (char *)NULL);
		_exit(1);
	}
	expect(&r, child, false);
	CHECK(rec_total(&r) == 2);
	rec_free(&r);
}

static void *exit_now(void *unused)
{
	exit(0);
	return unused;
}

/* A thread calls exit while others fire. */
static void exit_in_a_thread(void)
{
	struct recording r;
	struct storm storm;
	pthread_t thread;
	pid_t child;

	if (test_in_valgrind()) /* it asks a process that ends for what its threads have */
		return;
	child = fork();
	if (child == 0) {
		begin();
		begin_storm(&storm, 2, NULL);
		while (atomic_load(&fired) < 1000)
			usleep(100);
		CHECK(pthread_create(&thread, NULL, exit_now, NULL) == 0);
		for (;;)
			pause();
	}
	expect(&r, child, true);
	CHECK(rec_total(&r) >= 1000);
	rec_free(&r);
}

static const struct test tests[] = {
	{"destructors", destructors},
	{"executes another program", executed},
	{"exit in another thread", exit_in_a_thread},
};

int main(void) { return rec_main("recordend", tests, sizeof tests / sizeof tests[0], directory, path); }
