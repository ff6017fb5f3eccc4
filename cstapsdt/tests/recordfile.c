/* Tests of the files of recordings: where there can be none, and what becomes of those of earlier processes. */
#include "test.h"

#include "recording.h"

#include <fcntl.h>
#include <signal.h>
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

/* Where a recording would not be safe, there is none, and nothing is left behind. */
static void refusals(void)
{
	char open[80], file[96];
	struct rlimit limit, low;
	int before = test_count(directory, "");

	rec_refused(NULL, 0, "no path");
	rec_refused("", 0, "no path");
	snprintf(file, sizeof file, "%s/missing/deep/file", directory);
	rec_refused(file, 0, "No such file");
	rec_refused(directory, 0, "the file there is not a recording");
	snprintf(open, sizeof open, "%s/open", directory);
	snprintf(file, sizeof file, "%s/file", open);
	CHECK(mkdir(open, 0700) == 0 && chmod(open, 0777) == 0);
	rec_refused(file, 0, "other users may write to it, and could replace a recording: chmod go-w");
	snprintf(file, sizeof file, "%s/sub", open);
	CHECK(symlink("/tmp", file) == 0);
	strcat(file, "/file");
	rec_refused(file, 0, "and could replace this link: name the directory to which it leads");
	*strrchr(file, '/') = '\0';
	CHECK(unlink(file) == 0);
	if (geteuid() == 0) {
		CHECK(mkdir(file, 0700) == 0 && chown(file, 20001, 20001) == 0);
		strcat(file, "/file");
		rec_refused(file, 0, "sub: it belongs to user 20001, who could replace a recording");
		*strrchr(file, '/') = '\0';
		CHECK(rmdir(file) == 0);
		CHECK(symlink("/tmp", file) == 0 && lchown(file, 20001, 20001) == 0);
		strcat(file, "/file");
		rec_refused(file, 0, "sub: it belongs to user 20001, who could replace a recording");
		*strrchr(file, '/') = '\0';
		CHECK(unlink(file) == 0);
	}
	CHECK(rmdir(open) == 0);
	rec_refused("/proc/self/file", 0, "");
	rec_refused(path, ((size_t)1 << 30) + 1, "a recording has at most 1073741824 bytes");
	rec_refused(path, SIZE_MAX / 2 + 1, "a recording has at most 1073741824 bytes");
	rec_refused(path, SIZE_MAX, "a recording has at most 1073741824 bytes");
	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	low = (struct rlimit){1 << 20, limit.rlim_max};
	CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
	rec_refused(path, 2 << 20, "RLIMIT_FSIZE");
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

enum { KILLED, ENDED, BESIDE, INCOMPLETE, DAMAGED };

/* make_recording leaves the head of a recording, which began at a time. */
static void make_recording(const char *name, unsigned pid, int kind, unsigned began)
{
	unsigned char head[128] = "stapsdt\x1a";
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	head[32] = kind != INCOMPLETE;
	for (int i = 0; i < 4; i++)
		head[44 + i] = (unsigned char)(pid >> (8 * i));
	head[88] = (unsigned char)began;
	if (kind == DAMAGED)
		memset(head + 88, 0xff, 8);
	head[104] = kind == ENDED || kind == DAMAGED;
	head[108] = kind == BESIDE;
	CHECK(fd >= 0 && write(fd, head, sizeof head) == sizeof head);
	close(fd);
}

/*
 * Several recordings of one path are files of their own, and what ended processes have left beside it is counted and removed as
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
	for (int i = 0; i < 7; i++) {
		snprintf(rest, sizeof rest, i % 2 ? "%d" : "%d.2", 4200000 + i); /* more than a PID can be */
		name_beside(earlier[i], rest);
		make_recording(earlier[i], 4200000 + (unsigned)i, BESIDE, 1 + (unsigned)i);
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		name_beside(name, others[i]);
		if (i)
			make_recording(name, 1, ENDED, 1);
		else
			make_file(name, "");
	}
	snprintf(names[0], sizeof names[0], "%s.%d.4", path, (int)getpid());
	expect_recorded_to(names[0]);
	CHECK(test_count(directory, "recording-") == 0); /* those that were ended are removed first */
	for (int i = 0; i < 7; i++)
		CHECK(exists(earlier[i]) == (i >= 2));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		name_beside(names[0], others[i]);
		CHECK(exists(names[0]) && unlink(names[0]) == 0);
	}
	for (int i = 1; i < 4; i++)
		CHECK(exists(names[i]));
	for (int i = 0; i < 4; i++)
		close(locks[i]);
	/* A process that looks at a recording may remove it. No other does so at the same time. */
	for (int i = 2; i < 7; i++)
		CHECK(exists(earlier[i]));
	make_recording(earlier[0], 4200000, BESIDE, 1);
	locks[0] = open(earlier[0], O_RDONLY | O_CLOEXEC);
	CHECK(flock(locks[0], LOCK_SH | LOCK_NB) == 0);
	expect_recorded_to(path);
	CHECK(exists(earlier[0]));
	close(locks[0]);
	/* A recording beside the path does not block a later process with the same PID. Those that were ended are removed. */
	expect_recorded_to(path);
	CHECK(!exists(names[1]));
	for (int i = 2; i < 7; i++)
		CHECK(exists(earlier[i]) && unlink(earlier[i]) == 0);
	unload();
}

/* What is left in a directory, in the order in which it began, and whether it is removed. */
struct left {
	const char *name;
	unsigned pid;
	int kind;
	bool removed;
};

/*
 * Of the recordings of ended processes, those that were ended properly are removed first, then those that began beside another process, and
 * other crashes last. TestTidy of Go has the same files.
 */
static void kept(void)
{
	static const struct left first[] = {
		{"kept-20200107T000000.000000000Z", 1, KILLED, true}, {"kept-20200106T000000.000000000Z", 2, KILLED, true},
		{"kept-20200105T000000.000000000Z", 3, KILLED, false}, {"kept.4.17", 4, KILLED, false},
		{"kept-20200103T000000.000000000Z", 5, KILLED, false}, {"kept-20200102T000000.000000000Z", 6, KILLED, false},
		{"kept-20200101T000000.000000000Z", 7, KILLED, false}, {NULL, 0, 0, false},
	}, ended[] = {
		{"kept-20200101T000000.000000000Z", 1, KILLED, false}, {"kept.2", 2, BESIDE, true},
		{"kept-20200103T000000.000000000Z", 3, ENDED, true}, {"kept.4", 4, BESIDE, false},
		{"kept-20200105T000000.000000000Z", 5, KILLED, false}, {"kept-20200106T000000.000000000Z", 6, KILLED, false},
		{"kept.7", 7, ENDED, true}, {"kept.8", 8, ENDED, true}, {"kept.9.2", 9, BESIDE, false}, {NULL, 0, 0, false},
	}, children[] = {
		{"kept-20200101T000000.000000000Z", 1, KILLED, false}, {"kept.2", 2, BESIDE, true}, {"kept.3", 3, BESIDE, true},
		{"kept.4", 4, BESIDE, true}, {"kept.5", 5, BESIDE, false}, {"kept.6", 6, BESIDE, false},
		{"kept.7", 7, BESIDE, false}, {"kept.8", 8, BESIDE, false}, {NULL, 0, 0, false},
	}, incomplete[] = {
		{"kept-20200101T000000.000000000Z", 1, KILLED, false}, {"kept.2", 2, INCOMPLETE, true}, {NULL, 0, 0, false},
	}, damaged[] = {
		{"kept.1", 1, KILLED, false}, {"kept.2", 2, KILLED, false}, {"kept.3", 3, KILLED, false}, {"kept.4", 4, KILLED, false},
		{"kept.5", 5, KILLED, false}, {"kept.6", 6, DAMAGED, true}, {NULL, 0, 0, false},
	}, pattern[] = {
		{"1-app-1.rec", 1, KILLED, false}, {"2-app-2.rec-20200101T000000.000000000Z", 2, BESIDE, true},
		{"3-app-3.rec", 3, BESIDE, false}, {"4-app-4.rec.4", 4, BESIDE, false}, {"5-app-5.rec", 5, ENDED, true},
		{"8-app-8.rec", 9, KILLED, false}, {"8-app-9.rec", 8, KILLED, false}, {"x8-app-8.rec", 8, KILLED, false},
		{"10-app-10.rec", 10, BESIDE, false}, {"11-app-11.rec", 11, BESIDE, false}, {NULL, 0, 0, false},
	};
	static const struct { const char *to; const struct left *files; } cases[] = {
		{"kept", first}, {"kept", ended}, {"kept", children}, {"kept", incomplete}, {"kept", damaged}, {"%p-app-%p.rec", pattern},
	};
	char name[128];

	load();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		for (const struct left *f = cases[i].files; f->name; f++) {
			snprintf(name, sizeof name, "%s/%s", directory, f->name);
			make_recording(name, f->pid, f->kind, (unsigned)(f - cases[i].files) + 1);
		}
		snprintf(name, sizeof name, "%s/%s", directory, cases[i].to);
		rec_begin(name, 1);
		sdtStopRecording();
		snprintf(name, sizeof name, i < 5 ? "%s/kept" : "%s/%d-app-%d.rec", directory, (int)getpid(), (int)getpid());
		CHECK(unlink(name) == 0);
		for (const struct left *f = cases[i].files; f->name; f++) {
			snprintf(name, sizeof name, "%s/%s", directory, f->name);
			if (exists(name) == f->removed)
				printf("# case %zu: %s\n", i, f->name);
			CHECK(exists(name) != f->removed);
			unlink(name);
		}
	}
	unload();
}

/* The last directory of a path is made, for this user alone, and no directory for each process. */
static void made_directory(void)
{
	char made[80], file[96];
	struct stat status;
	mode_t before = umask(0777);

	load();
	snprintf(made, sizeof made, "%s/made", directory);
	snprintf(file, sizeof file, "%s/file", made);
	rec_begin(file, 1);
	sdtStopRecording();
	umask(before);
	CHECK(stat(made, &status) == 0 && status.st_mode == (S_IFDIR | 0700));
	CHECK(unlink(file) == 0 && rmdir(made) == 0);
	snprintf(file, sizeof file, "%s/of%%p/file", directory);
	rec_refused(file, 0, "No such file");
	unload();
}

/*
 * In a directory to which everyone may write, as in a volume of Kubernetes, a directory of its own, which is made, keeps the events
 * of a process that is killed, and the next one keeps its recording.
 */
static void volume(void)
{
	char open[80], made[88], file[96];
	struct recording r;
	int status, before = test_count(directory, "");
	pid_t child;

	snprintf(open, sizeof open, "%s/volume", directory);
	snprintf(made, sizeof made, "%s/rec", open);
	snprintf(file, sizeof file, "%s/file", made);
	CHECK(mkdir(open, 0700) == 0 && chmod(open, 0777) == 0);
	child = fork();
	if (child == 0) {
		load();
		rec_begin(file, 1);
		for (uint64_t i = 0; i < 100; i++)
			probeFire(probe, i);
		raise(SIGKILL);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(rec_read(&r, file) && r.seen == 100);
	rec_free(&r);
	load();
	rec_begin(file, 1);
	sdtStopRecording();
	unload();
	CHECK(test_count(made, "file") == 2 && test_count(made, "file-") == 1);
	CHECK(test_count(directory, "") == before + 1);
}

/* Nothing is renamed, counted or removed that does not begin like a recording. */
static void other_files(void)
{
	char name[128], mine[160];

	load();
	unlink(path);
	make_file(path, "precious");
	for (int i = 0; i < 7; i++)
		rec_refused(path, 0, "the file there is not a recording");
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
	for (int i = 0; i < 7; i++) {
		snprintf(mine, sizeof mine, i == 0 ? "%s.%d" : "%s.%d.%d", path, (int)getpid(), i + 1);
		expect_recorded_to(mine);
	}
	CHECK(has_content(path, "stapsdt\x1a") && unlink(path) == 0);
	expect_recorded_to(path);
	CHECK(test_count(directory, "recording-9999") == 7);
	CHECK(test_count(directory, "recording-") == 7 && test_count(directory, "recording.") == 5);

	snprintf(name, sizeof name, "%s/theirs", directory);
	CHECK(mkdir(name, 0755) == 0 && chown(name, STRANGER, STRANGER) == 0);
	strcat(name, "/sub");
	CHECK(mkdir(name, 0700) == 0);
	snprintf(mine, sizeof mine, "%s/file", name);
	rec_refused(mine, 0, "theirs: it belongs to user 20001, who could replace a recording");
	snprintf(mine, sizeof mine, "%s/link", directory);
	CHECK(symlink("theirs/sub//.././..", mine) == 0);
	strcat(mine, "/file");
	rec_refused(mine, 0, "theirs: it belongs to user 20001");
	snprintf(mine, sizeof mine, "%s/link", directory);
	CHECK(unlink(mine) == 0 && symlink("theirs/../.", mine) == 0 && lchown(mine, STRANGER, STRANGER) == 0);
	strcat(mine, "/file");
	rec_refused(mine, 0, "link: it belongs to user 20001");
	CHECK(chmod(directory, 0700) == 0);
	unload();
}

static const struct test tests[] = {
	{"refusals", refusals},
	{"earlier recordings", earlier},
	{"beside another recording", beside},
	{"what is kept", kept},
	{"the last directory", made_directory},
	{"a volume of Kubernetes", volume},
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
