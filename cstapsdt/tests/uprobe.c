/* Tests with the kernel's own uprobe, at the offset that probeOffset returns. */
#include "test.h"

#include <linux/perf_event.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* attach_counter opens a counter of the uprobe, of a process or a processor; -1 if it may not. */
static int attach_counter(const char *path, int64_t offset, pid_t process, int processor)
{
	struct perf_event_attr event = {.size = sizeof event};
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	unsigned type = 0;
	bool known = file && fscanf(file, "%u", &type) == 1;

	if (file)
		fclose(file);
	if (!known)
		return -1;
	event.type = type;
	event.config1 = (uint64_t)(uintptr_t)path;
	event.config2 = (uint64_t)offset;
	return (int)syscall(SYS_perf_event_open, &event, process, processor, -1,
			    PERF_FLAG_FD_CLOEXEC);
}

/* A case: where the image is, and its nop. */
static const struct uprobe_case {
	const char *name;
	void (*run)(SDTProvider_t *provider, SDTProbe_t *probe);
	MemFDOption_t place;
	SDTSite_t site;
} *now;

/* attach attaches a counter to a probe, or skips the case. */
static int attach(const SDTProbe_t *probe, pid_t process, int processor)
{
	int counter = attach_counter(probe->provider->_filename, probeOffset(probe), process, processor);

	if (counter < 0)
		test_skipped = "not root, or no uprobes";
	return counter;
}

static void fire_times(SDTProbe_t *probe, int times)
{
	for (int i = 0; i < times; i++)
		probeFire(probe, (uint64_t)i);
}

/* close_counter closes a counter, and returns what it has counted. */
static uint64_t close_counter(int counter)
{
	uint64_t count = 0;

	CHECK(read(counter, &count, sizeof count) == sizeof count);
	close(counter);
	return count;
}

static void fired_and_counted(SDTProvider_t *provider, SDTProbe_t *probe)
{
	SDTProbe_t *other = &provider->probes->next->probe;
	int counter = attach(probe, 0, -1);

	if (counter < 0)
		return;
	CHECK(probeIsEnabled(probe) == 1 && probeIsEnabled(other) == 0);
	fire_times(probe, 1000);
	fire_times(other, 1000);
	CHECK(close_counter(counter) == 1000);
	CHECK(probeIsEnabled(probe) == 0);
	probeFire(probe, (uint64_t)1);
}

/* fire_in_child forks a child, which fires, and returns whether the child was traced. */
static int fire_in_child(SDTProbe_t *probe)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int enabled = probeIsEnabled(probe);

		fire_times(probe, 1000);
		_exit(enabled);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/*
 * A child that is forked while its parent is traced fires and survives. If the tracer is
 * attached to every process, and there is a file to map, its events are counted too.
 */
static void fork_traced(SDTProvider_t *provider, SDTProbe_t *probe, bool remove)
{
	int counter = attach(probe, -1, sched_getcpu());
	uint64_t count;

	if (counter < 0)
		return;
	fire_times(probe, 1000); /* the first turns some nops into a call */
	if (remove)
		CHECK(unlink(provider->_filename) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(fire_in_child(probe) == 1 || remove);
	fire_times(probe, 1000);
	count = close_counter(counter);
	CHECK(count == 5000 || (remove && count == 2000));
	CHECK(fire_in_child(probe) == 0);
	CHECK(providerUnload(provider) == 0);
	CHECK(fire_in_child(probe) == 0);
}

static void child(SDTProvider_t *provider, SDTProbe_t *probe) { fork_traced(provider, probe, false); }
static void child_without_file(SDTProvider_t *provider, SDTProbe_t *probe) { fork_traced(provider, probe, true); }

/*
 * A tracer is attached to the parent alone. The child inherits the patched page: it fires,
 * forks again, unloads, loads and fires again.
 */
static void untraced_child(SDTProvider_t *provider, SDTProbe_t *probe)
{
	enum { OFTEN = 100 }; /* enough for the kernel to turn the nop into a call */
	int counter = attach(probe, 0, -1);
	pid_t child;

	if (counter < 0)
		return;
	fire_times(probe, OFTEN);
	child = fork();
	if (child == 0) {
		fire_times(probe, OFTEN);
		child = fork();
		fire_times(probe, OFTEN);
		if (child == 0)
			_exit(0);
		CHECK(test_wait(child));
		CHECK(providerUnload(provider) == 0 && providerLoad(provider) == 0);
		fire_times(probe, OFTEN);
		providerDestroy(provider);
		_exit(test_failures != 0);
	}
	CHECK(test_wait(child));
	fire_times(probe, OFTEN);
	CHECK(close_counter(counter) == 2 * OFTEN);
}

static void run_case(void)
{
	SDTProvider_t *provider = test_provider("uprobe");
	SDTProbe_t *probe = providerAddProbe(provider, "probe", 1, uint64);
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET((size_t)sched_getcpu(), &first);
	CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
	CHECK(providerAddProbe(provider, "other", 1, uint64) != NULL);
	CHECK(providerUseMemfd(provider, now->place) == 1 && providerUseSite(provider, now->site) == 0);
	CHECK(providerLoad(provider) == 0);
	now->run(provider, probe);
	providerDestroy(provider);
}

static const struct uprobe_case cases[] = {
	{"fired and counted, in memory", fired_and_counted, memfd_enabled, sdt_site_safe},
	{"fired and counted, in a file", fired_and_counted, memfd_disabled, sdt_site_safe},
	{"a child of a traced process, in memory", child, memfd_enabled, sdt_site_safe},
	{"a child of a traced process, in a file", child, memfd_disabled, sdt_site_safe},
	{"a child of a traced process, in a file that is gone", child_without_file, memfd_disabled, sdt_site_safe},
	{"a child, the fast nop in memory", child, memfd_enabled, sdt_site_fast},
	{"a child, the fast nop in a file", child, memfd_disabled, sdt_site_fast},
	{"a child, the fast nop in a file that is gone", child_without_file, memfd_disabled, sdt_site_fast},
	{"a child that is not traced, in memory", untraced_child, memfd_enabled, sdt_site_safe},
	{"a child that is not traced, in a file", untraced_child, memfd_disabled, sdt_site_safe},
	{"a child that is not traced, the fast nop in memory", untraced_child, memfd_enabled, sdt_site_fast},
	{"a child that is not traced, the fast nop in a file", untraced_child, memfd_disabled, sdt_site_fast},
};

int main(void)
{
	int failed = 0;

	for (now = cases; now < cases + sizeof cases / sizeof cases[0]; now++)
		failed |= test_main("uprobe", &(const struct test){now->name, run_case}, 1);
	return failed;
}
