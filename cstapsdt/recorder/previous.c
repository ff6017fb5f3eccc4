/*
 * The recordings of earlier processes, which stay in their directory under names with a time.
 * Nothing here allocates memory, because a forked child uses it too.
 */
#include "../recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* KEPT is the number of recordings of earlier processes that are kept. */
enum { KEPT = 5 };

/* The format of the suffix of a recording's name: 0 stands for any digit. */
static const char suffix_form[] = "-00000000T000000.000000000Z";

enum { SUFFIX_LENGTH = sizeof suffix_form - 1 };

/*
 * add_suffix writes the path with the present time. It does not call gmtime, which takes a lock of
 * the C library. The date is computed from the number of days since 1 March 0000, in cycles of 400
 * years.
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

/* The results of open_ours other than a descriptor. */
enum { GONE = -1, TAKEN = -2, OTHER = -3, FAILED = -4 };

static bool is_mine(const struct stat *file)
{
	return file->st_uid == geteuid() &&
	       (file->st_uid != SDT_OVERFLOW_USER || sdt_all_users_mapped());
}

/* is_recording reports whether a file begins like a recording, or returns FAILED. */
static int is_recording(int fd)
{
	unsigned char magic[sizeof sdt_magic];
	ssize_t size = pread(fd, magic, sizeof magic, 0);

	return size < 0 ? FAILED : size == sizeof magic && memcmp(magic, sdt_magic, sizeof magic) == 0;
}

/*
 * open_ours opens a recording of this user's processes. Files that are renamed, counted or removed
 * are identified by their owner and their first bytes. Files of others are not even opened.
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

void sdt_recordfile_directory(const char *path, char directory[SDT_PATH_SIZE])
{
	const char *slash = strrchr(path, '/');
	int length = slash && slash > path ? (int)(slash - path) : 1;

	snprintf(directory, SDT_PATH_SIZE, "%.*s", length, slash ? path : ".");
}

/*
 * move_file renames a file to the path of a recording with the present time. It writes the new
 * name, or "" if the file is gone.
 */
static int move_file(const char *path, const char *recording, char *name, size_t size)
{
	for (int tries = 0; tries < SDT_RECORDFILE_TRIES; tries++) {
		add_suffix(name, size, recording);
		if (sdt_directory_rename(path, name) == 0)
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

/* move_locked moves a file away that no process has locked. */
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
		return sdt_directory_rename(name, path) == 0 ? SDT_TAKEN : SDT_NOT_MOVED;
	return SDT_MOVED;
}

/* is_pid_suffix reports whether the text is .PID or .PID.N. */
static bool is_pid_suffix(const char *text)
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
 * is_of reports whether a file with the name of the recording and the suffix .PID belongs to that
 * process, or its head was not written yet. Another program's recording can have such a name.
 */
static bool is_of(int fd, const char *rest)
{
	unsigned char head[4];
	uint32_t pid;

	if (!is_pid_suffix(rest) || pread(fd, head, sizeof head, (off_t)SDT_OFF_PID) != sizeof head)
		return true;
	pid = sdt_get_u32(head);
	return pid == 0 || pid == strtoul(rest + 1, NULL, 10);
}

/*
 * close_locked closes a file that may be locked. The lock would outlive it in a child that was
 * forked meanwhile.
 */
static void close_locked(int fd)
{
	flock(fd, LOCK_UN);
	close(fd);
}

/*
 * sdt_recordfile_move_away renames a recording that an earlier process has left. The new name is
 * the path of the recording, also for a file beside it, with the present time. A file that is not
 * ours stays, and so does a file that a process has locked.
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
		sdt_fail_line(line, "%s: the file there is not a recording", path);
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
	close_locked(fd);
	return moved;
}

/*
 * sdt_recordfile_expand writes the path of a process's recording. In the pattern, %p stands for the
 * PID.
 */
int sdt_recordfile_expand(const char *pattern, uint32_t pid, char path[SDT_PATH_SIZE])
{
	size_t length = 0;
	int added;

	for (const char *at = pattern; *at; at++) {
		if (at[0] == '%' && at[1] == 'p') {
			added = snprintf(path + length, SDT_PATH_SIZE - length, "%lu", (unsigned long)pid);
			at++;
		} else
			added = snprintf(path + length, SDT_PATH_SIZE - length, "%c", *at);
		if (added < 0 || (size_t)added >= SDT_PATH_SIZE - length)
			return -1;
		length += (size_t)added;
	}
	path[length] = '\0';
	return 0;
}

/* is_to reports whether a file has a name that the recording of a process can have. */
static bool is_to(const char *pattern, const char *path, uint32_t pid)
{
	static char expected[SDT_PATH_SIZE]; /* the lock of the recording is held */
	const char *rest;
	size_t length;

	if (sdt_recordfile_expand(pattern, pid, expected) != 0)
		return false;
	length = strlen(expected);
	rest = path + length;
	return strncmp(path, expected, length) == 0 &&
	       (*rest == '\0' || is_suffix(rest) ||
		(is_pid_suffix(rest) && strtoul(rest + 1, NULL, 10) == pid));
}

/* The ranks of recordings. A process that was killed has not ended its own. */
enum rank { INCOMPLETE, ENDED, BESIDE, KILLED };

static enum rank rank_of(const unsigned char *head)
{
	if (sdt_get_u64(head + SDT_OFF_CHUNKS) == 0)
		return INCOMPLETE;
	if (sdt_get_u32(head + SDT_OFF_ENDED) != 0)
		return ENDED;
	return sdt_get_u32(head + SDT_OFF_BESIDE) != 0 ? BESIDE : KILLED;
}

/* The result of a look at the recordings to a path. */
struct look {
	const char *path, *pattern, *own;
	bool beside; /* another process records that did not begin beside a third one */
	int count;   /* of the recordings of processes that have ended */
	/* The recording that is removed first. */
	enum rank rank;
	uint64_t began;
	char first[SDT_PATH_SIZE + SDT_SUFFIX_SIZE];
};

/* remove_file removes a file that is locked, unless another file has the name by now. */
static bool remove_file(const char *path, const struct stat *file)
{
	struct stat now;

	return lstat(path, &now) == 0 && now.st_dev == file->st_dev && now.st_ino == file->st_ino &&
	       unlink(path) == 0;
}

static bool remove_first(const struct look *look)
{
	struct stat file;
	int fd = open_ours(look->first, &file);
	bool removed = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && remove_file(look->first, &file);

	if (fd >= 0)
		close_locked(fd);
	return removed;
}

/* count_recording counts the recording of a process that has ended. */
static void count_recording(struct look *look, const char *path, enum rank rank, uint64_t began)
{
	if (look->count++ > 0 && (rank > look->rank || (rank == look->rank && began >= look->began)))
		return;
	look->rank = rank;
	look->began = began;
	snprintf(look->first, sizeof look->first, "%s", path);
}

static void look_at_file(struct look *look, const char *path)
{
	unsigned char head[128] = {0};
	struct stat file;
	int fd = open_ours(path, &file);
	enum rank rank;

	if (fd < 0)
		return;
	if (pread(fd, head, sizeof head, 0) > 0 &&
	    is_to(look->pattern, path, sdt_get_u32(head + SDT_OFF_PID))) {
		rank = rank_of(head);
		/*
		 * Several processes may look at the same time, but none while another moves the file
		 * away.
		 */
		if (flock(fd, LOCK_SH | LOCK_NB) != 0)
			look->beside = look->beside || rank == KILLED;
		else if (rank != INCOMPLETE || !remove_file(path, &file))
			count_recording(look, path, rank, sdt_get_u64(head + SDT_OFF_HEAD_READING + 16));
	}
	close_locked(fd);
}

/*
 * look_at opens a file of the directory if its name begins like the name of a recording to the
 * path.
 */
static bool look_at(void *data, const char *name)
{
	struct look *look = data;
	static char path[SDT_PATH_SIZE + SDT_SUFFIX_SIZE]; /* as above */
	const char *base = strrchr(look->pattern, '/') + 1, *process = strstr(base, "%p");
	size_t length = process ? (size_t)(process - base) : strlen(base);

	if (strncmp(name, base, length) != 0 || !name[length] || !strchr("-.0123456789", name[length]))
		return true;
	if (snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(look->path, '/') - look->path), look->path,
		     name) >= (int)sizeof path)
		return true;
	if (strcmp(path, look->path) != 0 && strcmp(path, look->own) != 0)
		look_at_file(look, path);
	return true;
}

static void look_around(struct look *look)
{
	static struct sdt_entries entries;
	static char directory[SDT_PATH_SIZE];

	sdt_recordfile_directory(look->path, directory);
	sdt_directory_visit(directory, &entries, look_at, look);
}

/*
 * sdt_recordfile_tidy removes recordings to a path whose processes have ended, until KEPT are left:
 * first those that their process has ended, then those of processes that began beside another, such
 * as its children, and then those that began first. In the pattern, %p stands for the PID. If
 * another process records that did not begin beside a third one, this recording is marked as beside
 * it.
 */
void sdt_recordfile_tidy(const struct sdt_recordfile *file, const char *path, const char *pattern)
{
	static struct look look;

	look.path = path;
	look.pattern = pattern;
	look.own = file->path;
	do {
		look.beside = false;
		look.count = 0;
		look_around(&look);
	} while (look.count > KEPT && remove_first(&look));
	if (look.beside || strcmp(file->path, path) != 0)
		file->memory.bytes[SDT_OFF_BESIDE] = 1;
}
