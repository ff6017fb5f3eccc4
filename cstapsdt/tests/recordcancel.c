/* Tests of threads that are cancelled while they record or listen: what they had, others have afterwards. */
#include "watcher.h"

#include <signal.h>
#include <sys/wait.h>

static char path[64];

static void load(void) { rec_load("cancel"); }

static void in_cancelled_thread(void *(*run)(void *))
{
	pthread_t thread;
	void *result;

	CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
}

/* The first fire of a forked child opens a file, which is a point of cancellation. */
static void *fire_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	fire(1);
	fire(1);
	pthread_testcancel();
	return unused;
}

static int first_fire(void)
{
	struct recording r;
	char file[96];

	in_cancelled_thread(fire_cancelled);
	fire(1);
	sdtStopRecording();
	snprintf(file, sizeof file, "%s.%d", path, (int)getpid());
	CHECK(rec_read(&r, file) && r.ended && r.committed == 3 && r.dropped == 0);
	rec_free(&r);
	unlink(file);
	providerDestroy(provider);
	return test_failures != 0;
}

static void first_fire_of_a_child(void)
{
	load();
	CHECK(sdtRecord(path, 1) == 0);
	test_in_child(first_fire, "");
	sdtStopRecording();
	unlink(path);
	providerDestroy(provider);
}

static void *call_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	CHECK(sdtRecord(path, 1) == 0);
	CHECK(sdtListen() == 0);
	fire(1);
	sdtStopListening();
	sdtStopRecording();
	CHECK(unlink(path) == 0);
	pthread_testcancel();
	return unused;
}

static int call_after_cancelled(void)
{
	load();
	in_cancelled_thread(call_cancelled);
	CHECK(sdtListen() == 0);
	sdtStopListening();
	CHECK(sdtRecord(path, 1) == 0);
	fire(1);
	sdtStopRecording();
	unlink(path);
	providerDestroy(provider);
	return test_failures != 0;
}

static void calls(void) { test_in_child(call_after_cancelled, ""); }

static const struct test tests[] = {
	{"the first fire of a child", first_fire_of_a_child},
	{"calls", calls},
};

int main(void)
{
	snprintf(path, sizeof path, "/dev/shm/sdtcancel%d", (int)getpid());
	return watcher_main("recordcancel", tests, sizeof tests / sizeof tests[0]);
}
