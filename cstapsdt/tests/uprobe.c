/* Tests with the kernel's own uprobe, at the offset that probeOffset returns. */
#include "test.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

/* code_of returns the executable mapping of an address. */
static struct iovec code_of(const void *address)
{
	uintptr_t at = (uintptr_t)address;
	struct iovec code = {NULL, 0};
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[1024];

	while (maps && fgets(line, sizeof line, maps)) {
		uintptr_t first, last;
		char mode[5];

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &first, &last, mode) == 3 && first <= at && at < last)
			code = (struct iovec){(void *)first, last - first};
	}
	if (maps)
		fclose(maps);
	return code;
}

#if defined(PR_SET_SYSCALL_USER_DISPATCH) && defined(__x86_64__)
static volatile char blocks_calls;
static volatile sig_atomic_t caught;

static void catch_call(int signal)
{
	(void)signal;
	blocks_calls = 0;
	caught++;
}

/* A traced fire makes no system call, which a program may handle itself if it is not one of its C library. */
static void dispatched(SDTProvider_t *provider, SDTProbe_t *probe)
{
	struct iovec library = code_of(dlsym(RTLD_DEFAULT, "getpid"));
	struct sigaction before, action = {.sa_handler = catch_call};
	const char *site = getenv("STAPSDT_SITE");
	int counter;

	(void)provider;
	if (site && strcmp(site, "nop1") != 0)
		return; /* such a site is not for these programs: see providerUseSite */
	counter = attach(probe, 0, -1);
	if (counter < 0)
		return;
	sigaction(SIGSYS, &action, &before);
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, library.iov_base, library.iov_len, &blocks_calls) == 0) {
		blocks_calls = 1;
		fire_times(probe, 1000);
		blocks_calls = 0;
		CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) == 0);
		CHECK(close_counter(counter) == 1000 && caught == 0);
	} else {
		close(counter);
		test_skipped = "no syscall user dispatch";
	}
	sigaction(SIGSYS, &before, NULL);
}
#endif

/* move_code moves the program's code to memory that is not of its file, as one does that wants huge pages. */
static bool move_code(void)
{
	const struct iovec code = code_of((const void *)(uintptr_t)&move_code);
	const int mode = PROT_READ | PROT_WRITE | PROT_EXEC;
	void *copy = mmap(NULL, code.iov_len, mode, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return false;
	memcpy(copy, code.iov_base, code.iov_len);
	return mremap(copy, code.iov_len, code.iov_len, MREMAP_MAYMOVE | MREMAP_FIXED, code.iov_base) != MAP_FAILED;
}

/* The sites are not in the program's code, and stay where they are when that is moved, before and after a tracer is attached. */
static void moved(SDTProvider_t *provider, SDTProbe_t *probe)
{
	int counter;

	for (int i = 0; i < 2; i++) {
		counter = attach(probe, 0, -1);
		if (counter < 0)
			return;
		fire_times(probe, 1000);
		if (!move_code())
			test_skipped = "nothing anonymous may be executable";
		fire_times(probe, 1000);
		CHECK(close_counter(counter) == 2000);
	}
	CHECK(providerUnload(provider) == 0 && providerLoad(provider) == 0);
	counter = attach(probe, 0, -1);
	fire_times(probe, 1000);
	CHECK(close_counter(counter) == 1000);
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
#if defined(PR_SET_SYSCALL_USER_DISPATCH) && defined(__x86_64__)
	{"system calls that the program handles", dispatched, memfd_enabled, sdt_site_safe},
#endif
	{"a program that moves its code, the fast nop", moved, memfd_enabled, sdt_site_fast},
	{"a program that moves its code", moved, memfd_disabled, sdt_site_safe},
};

int main(void)
{
	int failed = 0;

	for (now = cases; now < cases + sizeof cases / sizeof cases[0]; now++)
		failed |= test_main("uprobe", &(const struct test){now->name, run_case}, 1);
	return failed;
}
