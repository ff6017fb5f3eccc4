/*
 * Tests on systems that refuse something: seccomp filters, a /tmp that is read-only,
 * full or noexec, a kernel that refuses an executable memfd. Each runs in a child
 * process, because the restriction cannot be undone.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ARGUMENT(n) offsetof(struct seccomp_data, args[n])
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define UNLESS_BITS(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, (skip))
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static bool install_filter(const struct sock_filter *code, size_t count)
{
	struct sock_fprog program = {(unsigned short)count, (struct sock_filter *)code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool no_memfd(unsigned error)
{
	const struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		UNLESS(SYS_memfd_create, 1),
		FAIL(error),
		ALLOW,
	};

	return install_filter(code, sizeof code / sizeof code[0]);
}

#ifndef SYS_mmap
#define SYS_mmap SYS_mmap2
#endif

/*
 * no_mapping refuses executable mappings of files, as SELinux may. It allows those of
 * memory, which valgrind needs.
 */
static bool no_mapping(void)
{
	const struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		UNLESS(SYS_mmap, 5),
		LOAD(ARGUMENT(2)),
		UNLESS_BITS(PROT_EXEC, 3),
		LOAD(ARGUMENT(3)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0),
		FAIL(EACCES),
		ALLOW,
	};

	return install_filter(code, sizeof code / sizeof code[0]);
}

/* no_flag imitates a kernel before 6.3, which does not know MFD_EXEC and MFD_NOEXEC_SEAL. */
static bool no_flag(void)
{
	const struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		UNLESS(SYS_memfd_create, 3),
		LOAD(ARGUMENT(1)),
		UNLESS_BITS(0x18, 1),
		FAIL(EINVAL),
		ALLOW,
	};

	return install_filter(code, sizeof code / sizeof code[0]);
}

/* mount_tmp mounts another /tmp, in a mount namespace of its own. */
static bool mount_tmp(unsigned long flags, const char *options)
{
	return unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/tmp", "tmpfs", flags, options) == 0;
}

/* no_unknown kills the process for system call 336, uprobe, as for one that it does not know. */
static bool no_unknown(void)
{
	const struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		UNLESS(336, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		ALLOW,
	};

	return install_filter(code, sizeof code / sizeof code[0]);
}

static SDTProvider_t *provider(MemFDOption_t place)
{
	SDTProvider_t *made = test_provider("restrict");

	providerUseMemfd(made, place);
	for (int i = 0; i < 100; i++)
		CHECK(providerAddProbe(made, "probe", 2, uint64, int32) != NULL);
	return made;
}

static void provider_loads(MemFDOption_t place)
{
	SDTProvider_t *made = provider(place);

	CHECK(providerLoad(made) == 0);
	CHECK_ERROR(made, noError, "");
	CHECK(made->probes->probe._fire != NULL);
	providerDestroy(made);
}

static void load_fails(MemFDOption_t place, SDTError_t code, const char *words)
{
	SDTProvider_t *made = provider(place);
	int descriptors = test_descriptors(), files = test_files();

	CHECK(providerLoad(made) == -1);
	CHECK_ERROR(made, code, words);
	CHECK(!made->_handle && !made->_filename && made->_memfd == -1);
	CHECK(test_descriptors() == descriptors && test_files() == files);
	for (SDTProbeList_t *list = made->probes; list; list = list->next) {
		CHECK(list->probe._fire == NULL);
		probeFire(&list->probe, (uint64_t)1, (uint64_t)2);
	}
	providerDestroy(made);
}

static bool memfd_eacces(void)
{
	return no_memfd(EACCES);
}

static bool memfd_enosys(void)
{
	return no_memfd(ENOSYS);
}

static void refused_memfd(void)
{
	load_fails(memfd_enabled, tmpCreationError, "create a memfd: Permission denied");
	provider_loads(memfd_disabled);
}

static void unknown_memfd(void)
{
	load_fails(memfd_enabled, tmpCreationError, "create a memfd: Function not implemented");
	provider_loads(memfd_disabled);
}

static void unmappable(void)
{
	load_fails(memfd_enabled, sharedLibraryOpenError, "/fd/");
	load_fails(memfd_disabled, sharedLibraryOpenError, "/tmp/sdttest");
}

static void both_places_load(void)
{
	provider_loads(memfd_enabled);
	provider_loads(memfd_disabled);
}

static bool read_only_tmp(void)
{
	return mount_tmp(MS_RDONLY, NULL);
}

static bool full_tmp(void)
{
	return mount_tmp(0, "size=4k");
}

static bool noexec_tmp(void)
{
	return mount_tmp(MS_NOEXEC, NULL);
}

static void unwritable_tmp(void)
{
	load_fails(memfd_disabled, tmpCreationError, "Read-only file system");
	provider_loads(memfd_enabled);
}

static void filled_tmp(void)
{
	load_fails(memfd_disabled, tmpCreationError, "No space left on device");
	provider_loads(memfd_enabled);
}

static void unexecutable_tmp(void)
{
	load_fails(memfd_disabled, sharedLibraryOpenError, "/tmp/sdttest");
	provider_loads(memfd_enabled);
}

static void only_memory(void)
{
	provider_loads(memfd_enabled);
}

static bool older_without_tmp(void)
{
	return read_only_tmp() && no_flag();
}

/* Neither a memfd nor a /tmp. */
static bool nothing(void)
{
	return read_only_tmp() && memfd_enosys();
}

static void no_place(void)
{
	load_fails(memfd_enabled, tmpCreationError, "create a memfd: Function not implemented");
	load_fails(memfd_disabled, tmpCreationError, "Read-only file system");
}

static bool few_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return false;
	limit.rlim_cur = 40;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void no_descriptors(void)
{
	SDTProvider_t *made = provider(memfd_enabled);
	int fds[64], count = 0;

	while (count < 64 && (fds[count] = open("/", O_RDONLY | O_CLOEXEC)) >= 0)
		count++;
	CHECK(providerLoad(made) == -1);
	CHECK_ERROR(made, elfCreationError, "Too many open files");
	close(fds[--count]);
	CHECK(providerLoad(made) == -1); /* one is free for the memfd, none for the loader */
	CHECK_ERROR(made, sharedLibraryOpenError, "Too many open files");
	while (count > 0)
		close(fds[--count]);
	providerDestroy(made);
}

/* The limit is less than an image, and more than valgrind writes to its log. */
static bool small_files(void)
{
	struct rlimit limit = {8192, 8192};

	return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

static void no_files(void)
{
	load_fails(memfd_enabled, tmpCreationError, "File too large");
	load_fails(memfd_disabled, tmpCreationError, "File too large");
}

/* vm.memfd_noexec belongs to a PID namespace, and can only be raised. */
static bool memfd_noexec(void)
{
	int fd, status;
	pid_t child;
	bool set;

	if (unshare(CLONE_NEWPID) != 0)
		return false;
	child = fork();
	if (child != 0) { /* the child continues; this process passes on its status */
		waitpid(child, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	fd = open("/proc/sys/vm/memfd_noexec", O_WRONLY);
	set = fd >= 0 && write(fd, "2", 1) == 1;
	if (fd >= 0)
		close(fd);
	return set;
}

/* A case is run in a process for which the system was changed. */
#define CASE(name, prepare, run, without)                                                          \
	static int name##_in_child(void)                                                           \
	{                                                                                          \
		if (!prepare())                                                                    \
			return 77;                                                                 \
		run();                                                                             \
		return test_failures != 0;                                                         \
	}                                                                                          \
	static void name(void) { test_in_child(name##_in_child, without); }

#define ROOT "not root"
#define SECCOMP "no seccomp"
CASE(memfd_refused, memfd_eacces, refused_memfd, SECCOMP)
CASE(memfd_unknown, memfd_enosys, unknown_memfd, SECCOMP)
CASE(not_mapped, no_mapping, unmappable, SECCOMP)
CASE(killing_filter, no_unknown, both_places_load, SECCOMP)
CASE(older_kernel, no_flag, both_places_load, SECCOMP)
CASE(older_no_tmp, older_without_tmp, only_memory, ROOT)
CASE(tmp_read_only, read_only_tmp, unwritable_tmp, ROOT)
CASE(tmp_full, full_tmp, filled_tmp, ROOT)
CASE(tmp_noexec, noexec_tmp, unexecutable_tmp, ROOT)
CASE(nowhere, nothing, no_place, ROOT)
CASE(sysctl, memfd_noexec, refused_memfd, "not root, or no vm.memfd_noexec")
CASE(descriptors, few_descriptors, no_descriptors, "no limit")
CASE(file_size, small_files, no_files, "no limit")

static const struct test tests[] = {
	{"memfd_create refused", memfd_refused},
	{"memfd_create unknown", memfd_unknown},
	{"no executable mapping", not_mapped},
	{"a filter that kills", killing_filter},
	{"a kernel before 6.3", older_kernel},
	{"a kernel before 6.3, without /tmp", older_no_tmp},
	{"/tmp read-only", tmp_read_only},
	{"/tmp full", tmp_full},
	{"/tmp noexec", tmp_noexec},
	{"neither memfd nor /tmp", nowhere},
	{"vm.memfd_noexec=2", sysctl},
	{"no descriptors left", descriptors},
	{"no file may be large", file_size},
};

TEST_MAIN("restrict", tests)
