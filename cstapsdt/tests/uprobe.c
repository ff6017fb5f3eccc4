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

static void count_events(MemFDOption_t place)
{
	SDTProvider_t *provider = test_provider("uprobe");
	SDTProbe_t *probe, *other;
	uint64_t count = 0;
	int counter;

	providerUseMemfd(provider, place);
	probe = providerAddProbe(provider, "probe", 2, uint64, int32);
	other = providerAddProbe(provider, "other", 0);
	CHECK(providerLoad(provider) == 0);
	counter = attach_counter(provider->_filename, probeOffset(probe), 0, -1);
	if (counter < 0) {
		test_skipped = "not root, or no uprobes";
		goto out;
	}
	CHECK(probeIsEnabled(probe) == 1 && probeIsEnabled(other) == 0);
	for (int i = 0; i < 1000; i++) {
		probeFire(probe, (uint64_t)i, (uint64_t)i);
		probeFire(other);
	}
	CHECK(read(counter, &count, sizeof count) == sizeof count && count == 1000);
	close(counter);
	CHECK(probeIsEnabled(probe) == 0);
	probeFire(probe, (uint64_t)1, (uint64_t)2);
out:
	providerDestroy(provider);
}

/* fire_in_child forks a child, which fires, and returns whether the child was traced. */
static int fire_in_child(SDTProbe_t *probe)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int enabled = probeIsEnabled(probe);

		for (int i = 0; i < 1000; i++)
			probeFire(probe, (uint64_t)i);
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
static void fork_traced(MemFDOption_t place, SDTSite_t site, bool remove)
{
	SDTProvider_t *provider = test_provider("forked");
	SDTProbe_t *probe;
	uint64_t count = 0;
	cpu_set_t first;
	int counter;

	CPU_ZERO(&first);
	CPU_SET((size_t)sched_getcpu(), &first);
	CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
	providerUseMemfd(provider, place);
	CHECK(providerUseSite(provider, site) == 0);
	probe = providerAddProbe(provider, "probe", 1, int32);
	CHECK(providerLoad(provider) == 0);
	counter = attach_counter(provider->_filename, probeOffset(probe), -1, sched_getcpu());
	if (counter < 0) {
		test_skipped = "not root, or no uprobes";
		goto out;
	}
	for (int i = 0; i < 1000; i++) /* the first turns some nops into a call */
		probeFire(probe, (uint64_t)i);
	if (remove)
		CHECK(unlink(provider->_filename) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(fire_in_child(probe) == 1 || remove);
	for (int i = 0; i < 1000; i++)
		probeFire(probe, (uint64_t)i);
	CHECK(read(counter, &count, sizeof count) == sizeof count);
	CHECK(count == 5000 || (remove && count == 2000));
	close(counter);
	CHECK(fire_in_child(probe) == 0);
	CHECK(providerUnload(provider) == 0);
	CHECK(fire_in_child(probe) == 0);
out:
	providerDestroy(provider);
}

static void fork_safe(void)
{
	fork_traced(memfd_enabled, sdt_site_safe, false);
	fork_traced(memfd_disabled, sdt_site_safe, false);
	fork_traced(memfd_disabled, sdt_site_safe, true);
}

static void fork_fast_in_memory(void)
{
	fork_traced(memfd_enabled, sdt_site_fast, false);
}

static void fork_fast_in_a_file(void)
{
	fork_traced(memfd_disabled, sdt_site_fast, false);
}

static void fork_fast_without_a_file(void)
{
	fork_traced(memfd_disabled, sdt_site_fast, true);
}

/* fire_often fires often enough for the kernel to turn the nop into a call. */
static void fire_often(SDTProbe_t *probe)
{
	for (int i = 0; i < 100; i++)
		probeFire(probe, (uint64_t)1);
}

/*
 * fork_with_patched_page forks while a tracer is attached to the parent. The child inherits the
 * patched page: it fires, forks again, unloads, loads and fires again.
 */
static void fork_with_patched_page(MemFDOption_t place, SDTSite_t site)
{
	SDTProvider_t *provider = test_provider("traced");
	SDTProbe_t *probe;
	uint64_t count = 0;
	int counter, status;
	pid_t child;

	providerUseMemfd(provider, place);
	CHECK(providerUseSite(provider, site) == 0);
	probe = providerAddProbe(provider, "probe", 1, uint64);
	CHECK(providerLoad(provider) == 0);
	counter = attach_counter(provider->_filename, probeOffset(probe), 0, -1);
	if (counter < 0) {
		providerDestroy(provider);
		SKIP("not root, or no uprobes");
	}
	fire_often(probe);
	child = fork();
	if (child == 0) {
		fire_often(probe);
		child = fork();
		fire_often(probe);
		if (child == 0)
			_exit(0);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		CHECK(providerUnload(provider) == 0 && providerLoad(provider) == 0);
		fire_often(probe);
		providerDestroy(provider);
		_exit(test_failures != 0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	fire_often(probe);
	CHECK(read(counter, &count, sizeof count) == sizeof count);
	CHECK(count == 200);
	close(counter);
	providerDestroy(provider);
}

static void inherited_in_memory(void) { fork_with_patched_page(memfd_enabled, sdt_site_safe); }
static void inherited_in_a_file(void) { fork_with_patched_page(memfd_disabled, sdt_site_safe); }
static void inherited_fast_in_memory(void) { fork_with_patched_page(memfd_enabled, sdt_site_fast); }
static void inherited_fast_in_a_file(void) { fork_with_patched_page(memfd_disabled, sdt_site_fast); }

static void in_memory(void)
{
	count_events(memfd_enabled);
}

static void in_a_file(void)
{
	count_events(memfd_disabled);
}

static const struct test tests[] = {
	{"fired and counted, in memory", in_memory},
	{"fired and counted, in a file", in_a_file},
	{"a child of a traced process", fork_safe},
	{"a child, the fast nop in memory", fork_fast_in_memory},
	{"a child, the fast nop in a file", fork_fast_in_a_file},
	{"a child, the fast nop in a file that is gone", fork_fast_without_a_file},
	{"a child that is not traced, in memory", inherited_in_memory},
	{"a child that is not traced, in a file", inherited_in_a_file},
	{"a child that is not traced, the fast nop in memory", inherited_fast_in_memory},
	{"a child that is not traced, the fast nop in a file", inherited_fast_in_a_file},
};

TEST_MAIN("uprobe", tests)
