/*
 * The recordings of earlier processes, which keep their place under names with a time. Nothing here
 * allocates memory, because a forked child uses it too.
 */
#ifndef SDT_IN_GO
#include "recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* KEPT is how many recordings of earlier processes are kept. */
enum { KEPT = 5 };

/* The form of what is added to the name of a recording: 0 is any digit. */
static const char suffix_form[] = "-00000000T000000.000000000Z";

enum { SUFFIX_LENGTH = sizeof suffix_form - 1 };

/* sdt_recordfile_rename renames a file to a name that no other file has. */
int sdt_recordfile_rename(const char *from, const char *to)
{
	if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS) /* the file system, or the kernel, cannot */
		return -1;
	return link(from, to) == 0 ? unlink(from) : -1;
}

/*
 * add_suffix writes the path with the present time. gmtime would take a lock of the C library. The
 * date is computed from the number of days since 1 March 0000, in cycles of 400 years.
 */
static void add_suffix(char *to, size_t size, const char *path)
{
	struct timespec now;
	unsigned long days, second, of_era, year_of_era, of_year, month;

	clock_gettime(CLOCK_REALTIME, &now);
	days = (unsigned long)now.tv_sec / 86400 + 719468;
	second = (unsigned long)now.tv_sec % 86400;
	of_era = days % 146097;
	year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	month = (5 * of_year + 2) / 153; /* from March on */
	snprintf(to, size, "%s-%04lu%02lu%02luT%02lu%02lu%02lu.%09ldZ", path,
		 days / 146097 * 400 + year_of_era + (month >= 10), month < 10 ? month + 3 : month - 9,
		 of_year - (153 * month + 2) / 5 + 1, second / 3600, second / 60 % 60, second % 60,
		 now.tv_nsec);
}

static bool is_suffix(const char *text)
{
	for (int i = 0; i < SUFFIX_LENGTH; i++) {
		bool digit = text[i] >= '0' && text[i] <= '9';

		if (suffix_form[i] == '0' ? !digit : text[i] != suffix_form[i])
			return false;
	}
	return text[SUFFIX_LENGTH] == '\0';
}

/* The head of what getdents64 returns: an entry of a directory. */
struct directory_entry {
	uint64_t ino;
	int64_t offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

/* What open_ours returns in place of a descriptor. */
enum { GONE = -1, TAKEN = -2, OTHER = -3, FAILED = -4 };

static bool is_mine(const struct stat *file)
{
	return file->st_uid == geteuid() && (file->st_uid != SDT_OVERFLOW_USER || sdt_all_users_mapped());
}

/* is_recording reports whether a file begins like a recording, or returns FAILED. */
static int is_recording(int fd)
{
	unsigned char magic[sizeof sdt_magic];
	ssize_t size = pread(fd, magic, sizeof magic, 0);

	return size < 0 ? FAILED : size == sizeof magic && memcmp(magic, sdt_magic, sizeof magic) == 0;
}

/*
 * open_ours opens a file that this user's processes have made as a recording: what is renamed, counted or removed is known by
 * its owner and by its first bytes. Files of others are not even opened.
 */
static int open_ours(const char *path, struct stat *file)
{
	struct stat now;
	int fd, status, reason;

	if (lstat(path, file) != 0)
		return errno == ENOENT ? GONE : FAILED;
	if (!is_mine(file))
		return TAKEN;
	if (!S_ISREG(file->st_mode))
		return OTHER;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? GONE : FAILED;
	if (fstat(fd, &now) != 0)
		status = FAILED;
	else if (now.st_dev != file->st_dev || now.st_ino != file->st_ino)
		status = TAKEN; /* by a process that works on the same files */
	else
		status = is_recording(fd);
	if (status == true)
		return fd;
	reason = errno;
	close(fd);
	errno = reason;
	return status == false ? OTHER : status;
}

/* A look at the files beside a recording, which are those whose names begin with its name. */
struct look {
	const char *path, *name;
	size_t length; /* of the name */
	int directory;
	/* The earlier recordings: how many there are, and what the oldest one has after the name. */
	int count;
	char oldest[SUFFIX_LENGTH + 1];
};

void sdt_recordfile_directory(const char *path, char directory[SDT_PATH_SIZE])
{
	const char *slash = strrchr(path, '/');
	int length = slash && slash > path ? (int)(slash - path) : 1;

	snprintf(directory, SDT_PATH_SIZE, "%.*s", length, slash ? path : ".");
}

/* open_directory opens the directory of the path. */
static bool open_directory(struct look *look)
{
	const char *slash = strrchr(look->path, '/');
	static char directory[SDT_PATH_SIZE]; /* the lock of the recording is held */

	look->name = slash ? slash + 1 : look->path;
	look->length = strlen(look->name);
	sdt_recordfile_directory(look->path, directory);
	look->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return look->directory >= 0;
}

/* A function of this type is called with what each name has after that of the recording, and the path. */
typedef void found_fn(struct look *look, const char *rest, const char *path);

static void look_at(struct look *look, const char *name, found_fn *found)
{
	static char path[SDT_PATH_SIZE + SDT_SUFFIX_SIZE]; /* as above */
	const char *rest = name + look->length;

	if (strncmp(name, look->name, look->length) == 0 &&
	    snprintf(path, sizeof path, "%s%s", look->path, rest) < (int)sizeof path)
		found(look, rest, path);
}

static void look_around(struct look *look, const char *path, found_fn *found)
{
	static _Alignas(struct directory_entry) char buffer[8192];
	long size;

	*look = (struct look){.path = path};
	if (!open_directory(look))
		return;
	while ((size = syscall(SYS_getdents64, look->directory, buffer, sizeof buffer)) > 0)
		for (long at = 0; at < size;) {
			const struct directory_entry *entry = (const void *)(buffer + at);

			look_at(look, entry->name, found);
			at += entry->size;
		}
	close(look->directory);
}

static void count_earlier(struct look *look, const char *rest, const char *path)
{
	struct stat file;
	int fd = is_suffix(rest) ? open_ours(path, &file) : FAILED;

	if (fd < 0)
		return;
	close(fd);
	if (look->count++ == 0 || strcmp(rest, look->oldest) < 0)
		memcpy(look->oldest, rest, sizeof look->oldest);
}

/* move_file renames a file to that of a recording with the present time, which it writes, or "" if it is gone. */
static int move_file(const char *path, const char *recording, char *name, size_t size)
{
	for (int tries = 0; tries < SDT_RECORDFILE_TRIES; tries++) {
		add_suffix(name, size, recording);
		if (sdt_recordfile_rename(path, name) == 0)
			return 0;
		if (errno == ENOENT) {
			*name = '\0';
			return 0;
		}
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* move_locked moves a file away that nobody has locked. */
static enum sdt_moved move_locked(const char *path, const char *recording, const struct stat *file)
{
	static char name[SDT_PATH_SIZE + SDT_SUFFIX_SIZE]; /* as above */
	struct stat now;

	if (move_file(path, recording, name, sizeof name) != 0)
		return SDT_NOT_MOVED;
	if (*name == '\0')
		return SDT_MOVED;
	if (lstat(name, &now) == 0 && (now.st_dev != file->st_dev || now.st_ino != file->st_ino))
		/* Another process has moved it away, and this is a recording that was just made. */
		return sdt_recordfile_rename(name, path) == 0 ? SDT_TAKEN : SDT_NOT_MOVED;
	return SDT_MOVED;
}

/* are_numbers reports whether the text is .PID or .PID.N. */
static bool are_numbers(const char *text)
{
	int count = 0;

	while (*text == '.' && count < 2) {
		uint64_t number = 0;
		const char *digits = ++text;

		while (*text >= '0' && *text <= '9' && number <= UINT32_MAX)
			number = 10 * number + (uint64_t)(*text++ - '0');
		if (text == digits || number > UINT32_MAX)
			return false;
		count++;
	}
	return count > 0 && *text == '\0';
}

/*
 * is_of reports whether a file whose name goes on after that of the recording with .PID is of that process, as far as its head was
 * written. Another program's recording can have such a name.
 */
static bool is_of(int fd, const char *rest)
{
	unsigned char head[4];
	uint32_t pid;

	if (!are_numbers(rest) || pread(fd, head, sizeof head, (off_t)SDT_OFF_PID) != sizeof head)
		return true;
	pid = sdt_get_u32(head);
	return pid == 0 || pid == strtoul(rest + 1, NULL, 10);
}

/*
 * sdt_recordfile_move_away renames a recording that an earlier process has left: it becomes an earlier one of the recording, whose
 * name it has or, if it was beside that, had wanted. A file that is not ours stays, and so does one that a process has locked.
 */
enum sdt_moved sdt_recordfile_move_away(const char *path, const char *recording, char *line)
{
	enum sdt_moved moved = SDT_NOT_MOVED;
	struct stat file;
	int fd = open_ours(path, &file);

	switch (fd) {
	case GONE:
		return SDT_MOVED;
	case TAKEN:
		return SDT_TAKEN;
	case OTHER:
		sdt_fail_line(line, "%s: the file there is no recording", path);
		return SDT_OTHER;
	case FAILED:
		sdt_fail_line(line, "%s: %m", path);
		return SDT_NOT_MOVED;
	}
	if (!is_of(fd, path + strlen(recording)))
		moved = SDT_TAKEN;
	else if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		moved = move_locked(path, recording, &file);
		if (moved == SDT_NOT_MOVED)
			sdt_fail_line(line, "%s: rename it: %m", path);
	} else if (errno == EWOULDBLOCK)
		moved = SDT_TAKEN;
	else
		sdt_fail_line(line, "%s: lock it: %m", path);
	close(fd);
	return moved;
}

/* move_beside moves away what a process that has ended has left beside the recording. */
static void move_beside(struct look *look, const char *rest, const char *path)
{
	static char line[SDT_LINE_SIZE]; /* as above */

	if (are_numbers(rest))
		(void)sdt_recordfile_move_away(path, look->path, line);
}

/*
 * sdt_recordfile_tidy gives the recordings that ended processes have left beside a path the names of earlier ones, and removes
 * the oldest of these, if there are more than KEPT.
 */
void sdt_recordfile_tidy(const char *path)
{
	static char oldest[SDT_PATH_SIZE + SDT_SUFFIX_SIZE];
	struct look look;

	look_around(&look, path, move_beside);
	do {
		look_around(&look, path, count_earlier);
		snprintf(oldest, sizeof oldest, "%s%s", path, look.oldest);
	} while (look.count > KEPT && unlink(oldest) == 0);
}
#endif
