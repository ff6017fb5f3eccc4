/* Tests of STAPSDT_DIR, and of file systems and directories that the library refuses. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/* The library calls this statfs, which says that every file is on the pretended file system. */
static uint32_t pretended;

int statfs(const char *path, struct statfs *status)
{
	int result = (int)syscall(SYS_statfs, path, status);

	if (result == 0 && pretended)
		status->f_type = (__typeof__(status->f_type))pretended;
	return result;
}

static char base[] = "/tmp/sdttest-dir-XXXXXX"; /* a case removes what it creates */
static char path[PATH_MAX];

static const char *in_base(const char *name)
{
	snprintf(path, sizeof path, "%s/%s", base, name);
	return path;
}

/* in_directory runs a case with its own directory and environment. */
static void in_directory(void)
{
	strcpy(base + strlen(base) - 6, "XXXXXX");
	CHECK(mkdtemp(base) != NULL);
	test_in_child(test_case->run, test_case->without);
	CHECK(rmdir(base) == 0);
}

/* loads_in reports whether a load creates the file in the directory, and an unload removes it. */
static bool loads_in(const char *directory, const char *named)
{
	SDTProvider_t *made = test_probes("directory", memfd_disabled, 1);
	char real[PATH_MAX], pattern[PATH_MAX + 64], prefix[64];
	bool good;

	if (named)
		setenv("STAPSDT_DIR", named, 1);
	good = providerLoad(made) == 0 && realpath(directory, real);
	snprintf(prefix, sizeof prefix, "sdttest%d-directory-", (int)getpid());
	snprintf(pattern, sizeof pattern, "%s/%s", real, prefix);
	if (good)
		good = strncmp(made->_filename, pattern, strlen(pattern)) == 0 &&
		       access(made->_filename, R_OK) == 0 && test_count(directory, prefix) == 1;
	else
		printf("# %s\n", providerError(made));
	probeFire(&made->probes->probe, (uint64_t)1, (uint64_t)2);
	good = chdir("/") == 0 && providerUnload(made) == 0 && good;
	good = test_count(real, prefix) == 0 && good;
	providerDestroy(made);
	return good;
}

/* load_fails reports whether a load fails with these words, and a load into memory succeeds. */
static bool load_fails(const char *named, const char *words)
{
	SDTProvider_t *made = test_probes("directory", memfd_disabled, 1);
	bool good;

	if (named)
		setenv("STAPSDT_DIR", named, 1);
	good = providerLoad(made) == -1 && providerErrno(made) == tmpCreationError &&
	       strstr(providerError(made), words) && !made->_filename;
	if (!good)
		printf("# not \"%s\": \"%s\"\n", words, providerError(made));
	good = providerUseMemfd(made, memfd_enabled) == 1 && providerLoad(made) == 0 && good;
	providerDestroy(made);
	return good;
}

static int default_place(void)
{
	unsetenv("STAPSDT_DIR");
	return !loads_in("/tmp", "");
}

static int made_where_missing(void)
{
	struct stat status;
	char name[PATH_MAX];

	strcpy(name, in_base("new"));
	umask(0277);
	CHECK(loads_in(name, name));
	CHECK(stat(name, &status) == 0 && status.st_mode == (S_IFDIR | 0700));
	CHECK(loads_in(name, name)); /* the directory exists now */
	CHECK(rmdir(name) == 0);
	CHECK(load_fails(in_base("missing/new"), "missing/new: No such file or directory"));
	CHECK(symlink("nothing", in_base("dangling")) == 0);
	CHECK(load_fails(in_base("dangling"), "dangling: No such file or directory"));
	CHECK(unlink(in_base("dangling")) == 0);
	return test_failures != 0;
}

static const char *elsewhere; /* to which another user's link leads when a directory was made */

int mkdir(const char *name, mode_t mode)
{
	int result = (int)syscall(SYS_mkdirat, AT_FDCWD, name, mode);

	if (elsewhere && result == 0)
		CHECK(rmdir(name) == 0 && symlink(elsewhere, name) == 0);
	return result;
}

/* The mode of a directory stays when another user has put a link to it in place of a new one. */
static int made_elsewhere(void)
{
	struct stat status;
	char real[PATH_MAX], name[PATH_MAX];

	strcpy(real, in_base("real"));
	CHECK(mkdir(real, 0700) == 0 && chmod(real, 0755) == 0);
	strcpy(name, in_base("new"));
	elsewhere = real;
	CHECK(loads_in(real, name));
	elsewhere = NULL;
	CHECK(stat(real, &status) == 0 && status.st_mode == (S_IFDIR | 0755));
	CHECK(unlink(name) == 0 && rmdir(real) == 0);
	return test_failures != 0;
}

/* Tracers need an absolute path, and so does the removal of the file. */
static int relative_path(void)
{
	char name[PATH_MAX];

	strcpy(name, in_base("real"));
	CHECK(mkdir(name, 0700) == 0);
	CHECK(chdir(base) == 0 && symlink("real", "link") == 0);
	CHECK(loads_in(name, "link/../real"));
	CHECK(chdir(base) == 0 && loads_in(name, "./link"));
	CHECK(unlink(in_base("link")) == 0 && rmdir(name) == 0);
	return test_failures != 0;
}

static int bad_signs(void)
{
	static const char *const names[][2] = {
		{"a:b", "has a colon"}, {"a\nb", "has a newline"}, {"a$b", "has a dollar sign"}};

	for (int i = 0; i < 3; i++) {
		CHECK(load_fails(in_base(names[i][0]), names[i][1]));
		CHECK(rmdir(in_base(names[i][0])) == 0); /* created before its path is checked */
	}
	return test_failures != 0;
}

static int not_a_directory(void)
{
	int fd = open(in_base("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	close(fd);
	CHECK(fd >= 0 && load_fails(in_base("file"), "file: Not a directory"));
	CHECK(unlink(in_base("file")) == 0);
	return test_failures != 0;
}

static int others_write(void)
{
	static const char words[] = "another user could exchange";

	CHECK(chmod(base, 0770) == 0 && load_fails(base, words));
	CHECK(chmod(base, 0707) == 0 && load_fails(base, words));
	CHECK(chmod(base, 01777) == 0 && loads_in(base, base));
	CHECK(chmod(base, 0755) == 0 && loads_in(base, base));
	if (geteuid() != 0)
		return test_failures != 0;
	CHECK(chown(base, 12345, 0) == 0 && load_fails(base, words));
	CHECK(chown(base, 0, 12345) == 0 && loads_in(base, base));
	return test_failures != 0;
}

static int root_owns(void)
{
	if (geteuid() != 0)
		return 77;
	CHECK(chmod(base, 01777) == 0 && setresuid(12345, 12345, 12345) == 0);
	CHECK(loads_in(base, base)); /* as in /tmp */
	CHECK(load_fails("/root/new", "use /root/new: Permission denied"));
	return test_failures != 0;
}

static int remote_filesystem(void)
{
	static const struct {
		uint32_t type;
		const char *name;
	} kinds[] = {{0x6969, "NFS"}, {0xff534d42, "CIFS"}, {0x65735546, "FUSE"}, {0xa501fcf5, "VxFS"}};
	char words[64];

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		pretended = kinds[i].type;
		snprintf(words, sizeof words, "it is on %s, where", kinds[i].name);
		CHECK(load_fails(base, words));
		CHECK(load_fails("", words)); /* /tmp */
	}
	pretended = 0x01021994; /* tmpfs */
	CHECK(loads_in(base, base));
	return test_failures != 0;
}

/* The file system of another user, which answers nothing: the kernel only tells its type. */
static int fuse(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=12345,group_id=0", fd);
	if (fd < 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("fuse", base, "fuse", 0, options) != 0)
		return 77;
	alarm(300); /* a load that asks the other user would never end */
	CHECK(load_fails(base, "it is on FUSE"));
	CHECK(umount2(base, MNT_DETACH) == 0);
	return test_failures != 0;
}

static void load_twice(SDTProvider_t *made)
{
	CHECK(providerLoad(made) == 0);
	CHECK(providerLoad(made) == 0); /* which writes nothing */
}

static void add_wrongly(SDTProvider_t *made) { CHECK(!providerAddProbe(made, "wrong", 1, sdt_string)); }

/* report_of returns in out what a call writes to standard error. */
static void report_of(void (*call)(SDTProvider_t *), SDTProvider_t *made, const char *debug, char *out, size_t size)
{
	int fds[2], kept = dup(STDERR_FILENO);
	ssize_t got;

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	setenv("STAPSDT_DEBUG", debug, 1);
	dup2(fds[1], STDERR_FILENO);
	call(made);
	dup2(kept, STDERR_FILENO);
	got = read(fds[0], out, size - 1);
	out[got > 0 ? got : 0] = '\0';
	close(kept);
	close(fds[0]);
	close(fds[1]);
}

static void report_of_load(const char *debug, MemFDOption_t place, char *out, size_t size)
{
	SDTProvider_t *made = test_probes("directory", place, 1);
	char want[2 * PATH_MAX];

	report_of(load_twice, made, debug, out, size);
	snprintf(want, sizeof want, "stapsdt: %s: placed in %s (", made->name, made->_filename);
	CHECK(!*out || strncmp(out, want, strlen(want)) == 0);
	providerDestroy(made);
}

static int debug_line(void)
{
	static const char end[] = ", built by libelf)\n";
	SDTProvider_t *made = test_probes("directory", memfd_enabled, 1);
	char line[2 * PATH_MAX], want[2 * PATH_MAX];

	report_of(add_wrongly, made, "1", line, sizeof line);
	snprintf(want, sizeof want, "stapsdt: %s\n", providerError(made));
	CHECK(strstr(line, "wrong") && strcmp(line, want) == 0);
	report_of(add_wrongly, made, "0", line, sizeof line);
	CHECK(!*line);
	providerDestroy(made);

	unsetenv("STAPSDT_SITE");
	for (int place = memfd_disabled; place <= memfd_enabled; place++) {
		report_of_load("1", (MemFDOption_t)place, line, sizeof line);
		CHECK(strlen(line) > sizeof end && strchr(line, '\n') == line + strlen(line) - 1);
		CHECK(strcmp(line + strlen(line) - strlen(end), end) == 0);
		CHECK(strstr(line, " (nop") != NULL);
		report_of_load("0", (MemFDOption_t)place, line, sizeof line);
		CHECK(!*line);
		report_of_load("", (MemFDOption_t)place, line, sizeof line);
		CHECK(!*line);
	}
	return test_failures != 0;
}

static const struct test_case cases[] = {
	{"without STAPSDT_DIR", default_place, ""},
	{"made where it is missing", made_where_missing, ""},
	{"moved when it is made", made_elsewhere, ""},
	{"a relative path, and links", relative_path, ""},
	{"a colon, a newline, a dollar sign", bad_signs, ""},
	{"no directory", not_a_directory, ""},
	{"what others can write to", others_write, ""},
	{"root's, with the sticky bit", root_owns, "not root"},
	{"file systems of a network", remote_filesystem, ""},
	{"a FUSE file system", fuse, "not root, or no FUSE"},
	{"STAPSDT_DEBUG", debug_line, ""},
};

int main(void) { return test_cases("directory", cases, sizeof cases / sizeof cases[0], in_directory); }
