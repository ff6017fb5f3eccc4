/* Tests of the way to the directory of a recording. */
#include "test.h"

#include "recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

static char directory[] = "/dev/shm/sdtway-XXXXXX";
static char path[64];

static bool on_nfs; /* whether the library finds NFS */

int fstatfs(int fd, struct statfs *status)
{
	int result = (int)syscall(SYS_fstatfs, fd, status);

	if (on_nfs)
		status->f_type = 0x6969;
	return result;
}

/* A network is recognized in each form of a path, and in the root. */
static void remote(void)
{
	static const char *const names[] = {"file", "./file", "/.//./file", "new/file"};
	char file[96];
	int before = test_count(directory, "");

	on_nfs = true;
	rec_refused("/stapsdt.rec", 0, "it is on NFS, where a program that records could wait or fail");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(file, sizeof file, "%s/%s", directory, names[i]);
		rec_refused(file, 0, "it is on NFS, where a program that records could wait or fail");
	}
	on_nfs = false;
	CHECK(test_count(directory, "") == before);
	sdtStopRecording();
	unlink("/stapsdt.rec");
}

/* The last element of a path names a file. */
static void path_of_directory(void)
{
	static const char *const ends[] = {"/", "/.", "/.."};
	char name[96];
	int before = test_count(directory, "");

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		snprintf(name, sizeof name, "%s%s", directory, ends[i]);
		rec_refused(name, 0, "it is a directory");
	}
	CHECK(test_count(directory, "") == before);
}

static char moved[88]; /* the name that another user gives to a directory that is just made */

int mkdirat(int at, const char *name, mode_t mode)
{
	int result = (int)syscall(SYS_mkdirat, at, name, mode);

	if (*moved)
		CHECK(renameat(at, name, AT_FDCWD, moved) == 0 && symlinkat(directory, at, name) == 0);
	return result;
}

/* No directory is made, and none is changed, to which a link of another user leads. */
static void made_elsewhere(void)
{
	char open[80], link[88], file[112];
	int before = test_count(directory, "");
	struct stat status;

	snprintf(open, sizeof open, "%s/open", directory);
	snprintf(link, sizeof link, "%s/link", open);
	CHECK(mkdir(open, 0700) == 0 && chmod(open, 0777) == 0 && symlink(directory, link) == 0);
	snprintf(file, sizeof file, "%s/new/file", link);
	rec_refused(file, 0, "and could replace this link");
	CHECK(test_count(directory, "") == before + 1);

	CHECK(chmod(directory, 0755) == 0);
	snprintf(file, sizeof file, "%s/new/file", open);
	snprintf(moved, sizeof moved, "%s/moved", open);
	rec_refused(file, 0, "Not a directory");
	CHECK(stat(directory, &status) == 0 && status.st_mode == (S_IFDIR | 0755));
	CHECK(chmod(directory, 0700) == 0 && rmdir(moved) == 0);
	*moved = '\0';
	*strrchr(file, '/') = '\0';
	CHECK(unlink(file) == 0 && unlink(link) == 0 && rmdir(open) == 0);
	CHECK(test_count(directory, "") == before);
}

/* A user may make files in a directory that this user may not list. */
static void unlisted(void)
{
	enum { USER = 20002 };
	char made[80], file[96], command[96];

	if (geteuid() != 0)
		SKIP("it becomes another user, as root can");
	CHECK(chmod(directory, 0711) == 0);
	snprintf(made, sizeof made, "%s/unlisted", directory);
	snprintf(file, sizeof file, "%s/file", made);
	CHECK(mkdir(made, 0700) == 0 && chmod(made, 01733) == 0);
	CHECK(seteuid(USER) == 0);
	for (int i = 0; i < 2; i++) {
		rec_begin(file, 1);
		sdtStopRecording();
	}
	CHECK(seteuid(0) == 0 && test_count(made, "file-") == 1 && test_count(made, "") == 4);
	CHECK(chmod(directory, 0700) == 0);
	snprintf(command, sizeof command, "rm -rf '%s'", made);
	CHECK(system(command) == 0);
}

static const struct test tests[] = {
	{"a network", remote},
	{"the path of a directory", path_of_directory},
	{"a directory elsewhere", made_elsewhere},
	{"a directory that its user may not list", unlisted},
};

int main(void) { return rec_main("recordway", tests, sizeof tests / sizeof *tests, directory, path); }
