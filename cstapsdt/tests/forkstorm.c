/* Tests of children that are forked whatever other threads do: record, fork too, begin and end to listen, or are watched. */
#include "watcher.h"

#include <signal.h>
#include <sys/wait.h>

static char path[64];

static void load(void) { rec_load("forkstorm"); }

/* fork_child forks a child, which a signal ends if it hangs. */
static pid_t fork_child(void (*run)(void))
{
	pid_t child = fork();

	if (child != 0)
		return child;
	alarm(300);
	run();
	providerDestroy(provider);
	_exit(test_failures != 0);
}

enum { FORKERS = 4, CHILDREN = 12, CHILD_FIRES = 500, RECORDERS = 2 };

static pid_t forked[FORKERS][CHILDREN];
static bool ended_well[FORKERS];

/* fire_in_child gives the recording another name: those of other children will remove it under its own. */
static void fire_in_child(void)
{
	char file[96], kept[96];

	fire_times(CHILD_FIRES);
	snprintf(file, sizeof file, "%s.%d", path, (int)getpid());
	snprintf(kept, sizeof kept, "%s-of-%d", path, (int)getpid());
	CHECK(rename(file, kept) == 0);
}

static void *fork_often(void *index)
{
	pid_t *children = forked[(uintptr_t)index];
	bool well = true;

	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork_child(fire_in_child);
		fire_times(1);
		well = test_wait(children[i]) && well;
	}
	ended_well[(uintptr_t)index] = well;
	return NULL;
}

/* Several threads fork while others, and they themselves, record. No event is lost that is not counted, in any process. */
static void recorded(void)
{
	pthread_t forkers[FORKERS];
	struct storm storm;
	char file[96], pattern[96];

	/* For valgrind, what the C library has of a thread that forks is lost in the child. */
	if (!FORKS_WITH_THREADS || test_in_valgrind())
		return;
	load();
	snprintf(pattern, sizeof pattern, "%s.%%p", path);
	CHECK(sdtRecord(pattern, 1) == 0);
	begin_storm(&storm, RECORDERS, NULL);
	for (int i = 0; i < FORKERS; i++)
		CHECK(pthread_create(&forkers[i], NULL, fork_often, (void *)(uintptr_t)i) == 0);
	for (int i = 0; i < FORKERS; i++)
		CHECK(pthread_join(forkers[i], NULL) == 0 && ended_well[i]);
	end_storm(&storm);
	sdtStopRecording();
	snprintf(file, sizeof file, "%s.%d", path, (int)getpid());
	rec_expect(file, getpid(), atomic_load(&fired));
	for (int i = 0; i < FORKERS; i++)
		for (int k = 0; k < CHILDREN; k++) {
			snprintf(file, sizeof file, "%s-of-%d", path, (int)forked[i][k]);
			rec_expect(file, forked[i][k], CHILD_FIRES);
		}
	providerDestroy(provider);
}

static void fire_unwatched(void)
{
	CHECK(!probeIsEnabled(probe));
	fire_times(10);
	sdtStopListening();
}

/* watch_often watches the parent of this process, again and again, until it is killed. */
static void watch_often(void)
{
	pid_t parent = getppid();

	for (int i = 0;; i++) {
		struct watcher w;

		if (address_of(parent).sun_path[0] == '\0')
			continue;
		w = connect_to(parent);
		watch_all(&w);
		if (i % 2 == 0)
			end_watch(&w);
		disconnect(&w);
		if (test_failures)
			_exit(1);
	}
}

/* Children are forked in the middle of whatever the thread does that serves watchers. */
static void watched(void)
{
	struct watcher w;
	pid_t watcher;
	int status = 0;

	load();
	fflush(stdout);
	watcher = fork();
	if (watcher == 0)
		watch_often();
	listen_here();
	for (int i = 0; i < test_rounds(3 * CHILDREN); i++) {
		pid_t child = fork_child(fire_unwatched);

		fire_times(1);
		CHECK(test_wait(child));
	}
	CHECK(kill(watcher, SIGKILL) == 0 && waitpid(watcher, &status, 0) == watcher);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	w = connect_to(getpid());
	watch_all(&w);
	fire_times(3);
	end_watch(&w);
	CHECK(committed_in(&w) == 3);
	disconnect(&w);
	sdtStopListening();
	providerDestroy(provider);
}

static void *listen_often(void *unused)
{
	while (!atomic_load(&ending)) {
		if (sdtListen() != 0) {
			printf("# %s\n", sdtError());
			return (void *)"sdtListen has failed";
		}
		sdtStopListening();
	}
	return unused;
}

static void listen_in_child(void)
{
	sdtStopListening();
	listen_here();
	sdtStopListening();
}

/* Children are forked while another thread begins and ends to listen. */
static void listening(void)
{
	pthread_t thread;
	void *result;

	/* Of what the thread has allocated at the moment of a fork, its child has a copy, which valgrind finds lost. */
	if (!FORKS_WITH_THREADS || test_in_valgrind())
		return;
	load();
	atomic_store(&ending, false);
	CHECK(pthread_create(&thread, NULL, listen_often, NULL) == 0);
	for (int i = 0; i < 3 * CHILDREN; i++)
		CHECK(test_wait(fork_child(listen_in_child)));
	atomic_store(&ending, true);
	CHECK(pthread_join(thread, &result) == 0);
	CHECK(result == NULL);
	providerDestroy(provider);
}

static const struct test tests[] = {
	{"recorded, in several threads", recorded},
	{"watched", watched},
	{"while a thread listens and stops", listening},
};

int main(void)
{
	snprintf(path, sizeof path, "/dev/shm/sdtstorm%d", (int)getpid());
	return watcher_main("forkstorm", tests, sizeof tests / sizeof tests[0]);
}
