/* The kernel's own uprobe, at the offset that probeOffset tells. */
#include "test.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* attach opens a counter of the uprobe in this process; -1 where it may not. */
static int attach(const char *path, int64_t offset)
{
	struct perf_event_attr event = {.size = sizeof event};
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	unsigned type;
	bool known = file && fscanf(file, "%u", &type) == 1;

	if (file)
		fclose(file);
	if (!known)
		return -1;
	event.type = type;
	event.config1 = (uint64_t)(uintptr_t)path;
	event.config2 = (uint64_t)offset;
	return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void counted(MemFDOption_t place)
{
	SDTProvider_t *provider = test_provider("uprobe");
	SDTProbe_t *probe, *other;
	uint64_t count = 0;
	int counter;

	providerUseMemfd(provider, place);
	probe = providerAddProbe(provider, "probe", 2, uint64, int32);
	other = providerAddProbe(provider, "other", 0);
	CHECK(providerLoad(provider) == 0);
	counter = attach(provider->_filename, probeOffset(probe));
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

static void in_memory(void)
{
	counted(memfd_enabled);
}

static void in_a_file(void)
{
	counted(memfd_disabled);
}

static const struct test tests[] = {
	{"fired and counted, in memory", in_memory},
	{"fired and counted, in a file", in_a_file},
};

TEST_MAIN("uprobe", tests)
