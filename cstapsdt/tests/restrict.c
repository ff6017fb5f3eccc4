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

static void provider_loads(MemFDOption_t place)
{
	SDTProvider_t *made = test_probes("restrict", place, 100);

	CHECK(providerLoad(made) == 0);
	CHECK_ERROR(made, noError, "");
	CHECK(made->probes->probe._fire != NULL);
	providerDestroy(made);
}

static void load_fails(MemFDOption_t place, SDTError_t code, const char *words)
{
	SDTProvider_t *made = test_probes("restrict", place, 100);
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

/* What is prepared, and how loads fail then. */
struct restriction {
	const char *name;
	bool (*prepare)(void);
	const char *without;
	struct failure {
		SDTError_t code;
		const char *words; /* NULL for a load that succeeds */
	} in_memory, in_a_file;
};

static void expect_load(MemFDOption_t place, const struct failure *expected)
{
	if (expected->words)
		load_fails(place, expected->code, expected->words);
	else
		provider_loads(place);
}

static bool memfd_eacces(void)
{
	return no_memfd(EACCES);
}

static bool memfd_enosys(void)
{
	return no_memfd(ENOSYS);
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

static bool older_without_tmp(void)
{
	return read_only_tmp() && no_flag();
}

/* Neither a memfd nor a /tmp. */
static bool nothing(void)
{
	return read_only_tmp() && memfd_enosys();
}

static int no_descriptors(void)
{
	SDTProvider_t *made = test_probes("restrict", memfd_enabled, 100);
	struct rlimit limit;
	int fds[64], count = 0;

	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = 40;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
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
	return test_failures != 0;
}

/* The limit is less than an image, and more than valgrind writes to its log. */
static bool small_files(void)
{
	struct rlimit limit = {8192, 8192};

	return setrlimit(RLIMIT_FSIZE, &limit) == 0;
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

#define ROOT "not root"
#define SECCOMP "no seccomp"
#define LOADS {noError, NULL}
#define NO_TMP {tmpCreationError, "Read-only file system"}
#define NO_MEMFD {tmpCreationError, "create a memfd: Function not implemented"}
#define NOT_PERMITTED {tmpCreationError, "create a memfd: Permission denied"}
#define NOT_IN_TMP {sharedLibraryOpenError, "/tmp/sdttest"}
#define TOO_LARGE {tmpCreationError, "File too large"}

static const struct restriction restrictions[] = {
	{"memfd_create refused", memfd_eacces, SECCOMP, NOT_PERMITTED, LOADS},
	{"memfd_create unknown", memfd_enosys, SECCOMP, NO_MEMFD, LOADS},
	{"no executable mapping", no_mapping, SECCOMP, {sharedLibraryOpenError, "/fd/"}, NOT_IN_TMP},
	{"a filter that kills", no_unknown, SECCOMP, LOADS, LOADS},
	{"a kernel before 6.3", no_flag, SECCOMP, LOADS, LOADS},
	{"a kernel before 6.3, without /tmp", older_without_tmp, ROOT, LOADS, NO_TMP},
	{"/tmp read-only", read_only_tmp, ROOT, LOADS, NO_TMP},
	{"/tmp full", full_tmp, ROOT, LOADS, {tmpCreationError, "No space left on device"}},
	{"/tmp noexec", noexec_tmp, ROOT, LOADS, NOT_IN_TMP},
	{"neither memfd nor /tmp", nothing, ROOT, NO_MEMFD, NO_TMP},
	{"vm.memfd_noexec=2", memfd_noexec, "not root, or no vm.memfd_noexec", NOT_PERMITTED, LOADS},
	{"no file may be large", small_files, "no limit", TOO_LARGE, TOO_LARGE},
};

static const struct restriction *restriction; /* the one that is tested */

static int restricted_in_child(void)
{
	if (!restriction->prepare())
		return 77;
	expect_load(memfd_enabled, &restriction->in_memory);
	expect_load(memfd_disabled, &restriction->in_a_file);
	return test_failures != 0;
}

static void restricted(void) { test_in_child(restricted_in_child, restriction->without); }
static void descriptors(void) { test_in_child(no_descriptors, ""); }

int main(void)
{
	const size_t count = sizeof restrictions / sizeof restrictions[0];
	int failed = test_main("restrict", &(const struct test){"no descriptors left", descriptors}, 1);

	for (restriction = restrictions; restriction < restrictions + count; restriction++)
		failed |= test_main("restrict", &(const struct test){restriction->name, restricted}, 1);
	return failed;
}
