/* Tests of the files of recordings: where there can be none, and what becomes of those of earlier processes. */
#include "test.h"

#include "recording.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char directory[] = "/dev/shm/sdtfile-XXXXXX";
static char path[64];

static void load(void)
{
	provider = test_provider("recordfile");
	probe = providerAddProbe(provider, "event", 1, uint64);
	CHECK(providerLoad(provider) == 0);
}

static void unload(void) { providerDestroy(provider); }

static void record(size_t size) { rec_begin(path, size); }

static void refused(const char *where, size_t size, const char *reason)
{
	CHECK(sdtRecord(where, size) == -1);
	CHECK(strstr(sdtError(), reason) != NULL);
	if (test_failures)
		printf("# %s\n", sdtError());
}

/* Where a recording would not be safe, there is none, and nothing is left behind. */
static void refusals(void)
{
	char open[80], file[96];
	struct rlimit limit, low;
	int before = test_count(directory, "");

	refused(NULL, 0, "no path");
	refused("", 0, "no path");
	snprintf(file, sizeof file, "%s/missing/file", directory);
	refused(file, 0, "No such file");
	refused(directory, 0, "the file there is no recording");
	snprintf(open, sizeof open, "%s/open", directory);
	snprintf(file, sizeof file, "%s/file", open);
	CHECK(mkdir(open, 0700) == 0 && chmod(open, 0777) == 0);
	refused(file, 0, "other users may write to it, and could replace a recording: chmod go-w");
	snprintf(file, sizeof file, "%s/sub", open);
	CHECK(mkdir(file, 0700) == 0);
	strcat(file, "/file");
	refused(file, 0, "other users may write to it");
	*strrchr(file, '/') = '\0';
	CHECK(rmdir(file) == 0 && rmdir(open) == 0);
	refused("/proc/self/file", 0, "");
	refused(path, (size_t)1 << 40, "at most");
	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	low = (struct rlimit){1 << 20, limit.rlim_max};
	CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
	refused(path, 2 << 20, "RLIMIT_FSIZE");
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(test_count(directory, "") == before);
	sdtStopRecording();
}

/* The recordings of earlier processes are kept, five at most. */
static void earlier(void)
{
	struct recording r;

	load();
	for (int i = 0; i < 8; i++) {
		record(1);
		probeFire(probe, (uint64_t)1);
		sdtStopRecording();
	}
	CHECK(test_count(directory, "recording-") == 5);
	CHECK(rec_read(&r, path) && r.seen == 1);
	rec_free(&r);
	unload();
}

static void name_beside(char name[96], const char *rest) { snprintf(name, 96, "%s.%s", path, rest); }

static bool exists(const char *file) { return access(file, F_OK) == 0; }

/* make_file makes a file of that content. */
static void make_file(const char *name, const char *content)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
	close(fd);
}

/* has_content reports whether a file has that content. */
static bool has_content(const char *name, const char *content)
{
	char text[32] = "";
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t size = read(fd, text, sizeof text - 1);

	close(fd);
	return size == (ssize_t)strlen(content) && strcmp(text, content) == 0;
}

/* lock_file locks a file as the process does that records to it. */
static int lock_file(const char *name)
{
	int fd = open(name, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	return fd;
}

/* expect_recorded_to records an event, which is in the file of that name. */
static void expect_recorded_to(const char *name)
{
	struct recording r;

	record(1);
	probeFire(probe, (uint64_t)1);
	sdtStopRecording();
	CHECK(rec_read(&r, name) && r.seen == 1);
	rec_free(&r);
}

/*
 * Several recordings of one path are files of their own, and what ended processes have left beside it is kept and removed as
 * earlier recordings are. Files of other kinds are left alone, and so is one that may be of a process that begins.
 */
static void beside(void)
{
	static const char *const others[] = {"9999", "x", "1.x", "1.2.3", "1.", "4294967296", "", "1-2"};
	char names[4][96], earlier[7][96], name[96], rest[32];
	int locks[4];

	load();
	for (int i = 0; i < 4; i++) {
		snprintf(names[i], sizeof names[i], i == 0 ? "%s" : i == 1 ? "%s.%d" : "%s.%d.%d", path, (int)getpid(), i);
		expect_recorded_to(names[i]);
		locks[i] = lock_file(names[i]);
	}
	CHECK(test_count(directory, "recording-") == 5);
	for (int i = 0; i < 7; i++) {
		snprintf(rest, sizeof rest, i % 2 ? "%d" : "%d.2", 4200000 + i); /* more than a PID can be */
		name_beside(earlier[i], rest);
		make_file(earlier[i], "stapsdt\x1a");
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		name_beside(name, others[i]);
		make_file(name, i ? "stapsdt\x1a" : "");
	}
	snprintf(names[0], sizeof names[0], "%s.%d.4", path, (int)getpid());
	expect_recorded_to(names[0]);
	CHECK(test_count(directory, "recording-") == 5);
	for (int i = 0; i < 7; i++)
		CHECK(!exists(earlier[i]));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		name_beside(names[0], others[i]);
		CHECK(exists(names[0]));
	}
	for (int i = 1; i < 4; i++)
		CHECK(exists(names[i]));
	for (int i = 0; i < 4; i++)
		close(locks[i]);
	/* What a process of the same number has left beside the recording is an earlier recording too. */
	expect_recorded_to(path);
	CHECK(test_count(directory, "recording-") == 5);
	CHECK(!exists(names[1]));
	unload();
}

/* Nothing is renamed, counted or removed that does not begin like a recording. */
static void other_files(void)
{
	char name[128], mine[160];

	load();
	unlink(path);
	make_file(path, "precious");
	for (int i = 0; i < 7; i++)
		refused(path, 0, "the file there is no recording");
	CHECK(has_content(path, "precious") && unlink(path) == 0);
	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof name, "%s-19991231T235959.00000000%dZ", path, i);
		make_file(name, "precious");
	}
	snprintf(mine, sizeof mine, "%s.%d", path, (int)getpid());
	make_file(mine, "precious");
	for (int i = 0; i < 7; i++)
		expect_recorded_to(path);
	CHECK(test_count(directory, "recording-") == 7 + 5);
	CHECK(test_count(directory, "recording-1999") == 7);
	CHECK(has_content(mine, "precious") && unlink(mine) == 0);
	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof name, "%s-19991231T235959.00000000%dZ", path, i);
		CHECK(has_content(name, "precious") && unlink(name) == 0);
	}
	unload();
}

/* Another user's files keep nobody from recording, and a directory that another user can replace is refused. */
static void strangers(void)
{
	enum { STRANGER = 20001 };
	char name[128], mine[160];

	if (geteuid() != 0)
		SKIP("it gives files to another user, as root can");
	load();
	CHECK(chmod(directory, 01777) == 0);
	unlink(path);
	make_file(path, "stapsdt\x1a");
	CHECK(chown(path, STRANGER, STRANGER) == 0);
	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof name, "%s-99991231T235959.00000000%dZ", path, i);
		make_file(name, "stapsdt\x1a");
		CHECK(chown(name, STRANGER, STRANGER) == 0);
	}
	snprintf(mine, sizeof mine, "%s.%d", path, (int)getpid());
	for (int i = 0; i < 7; i++)
		expect_recorded_to(mine);
	CHECK(has_content(path, "stapsdt\x1a") && unlink(path) == 0);
	expect_recorded_to(path);
	CHECK(test_count(directory, "recording-9999") == 7);
	CHECK(test_count(directory, "recording-") == 7 + 5);

	snprintf(name, sizeof name, "%s/theirs", directory);
	CHECK(mkdir(name, 0755) == 0 && chown(name, STRANGER, STRANGER) == 0);
	strcat(name, "/sub");
	CHECK(mkdir(name, 0700) == 0);
	snprintf(mine, sizeof mine, "%s/file", name);
	refused(mine, 0, "theirs: it belongs to user 20001, who could replace a recording");
	snprintf(mine, sizeof mine, "%s/link", directory);
	CHECK(symlink("theirs/sub//.././..", mine) == 0);
	strcat(mine, "/file");
	refused(mine, 0, "theirs: it belongs to user 20001");
	snprintf(mine, sizeof mine, "%s/link", directory);
	CHECK(unlink(mine) == 0 && symlink("theirs/../.", mine) == 0 && lchown(mine, STRANGER, STRANGER) == 0);
	strcat(mine, "/file");
	refused(mine, 0, "link: it belongs to user 20001");
	CHECK(chmod(directory, 0700) == 0);
	unload();
}

static const struct test tests[] = {
	{"refusals", refusals},
	{"earlier recordings", earlier},
	{"beside another recording", beside},
	{"files that are no recordings", other_files},
	{"files of other users", strangers},
};

static void remove_directory(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	if (system(command) != 0)
		printf("# %s is left\n", directory);
}

int main(void)
{
	int status;

	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof path, "%s/recording", directory);
	status = test_main("recordfile", tests, sizeof tests / sizeof tests[0]);
	remove_directory();
	return status;
}
