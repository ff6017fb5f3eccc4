/*
 * The recordings of earlier processes, which stay in their directory under names with a time.
 * Nothing here allocates memory, because a forked child uses it too.
 */
#include "recorder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
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
enum { TAKEN = -1, OTHER = -2, FAILED = -3 };

/*
 * open_ours opens a recording of this user's processes. Files that are renamed, counted or removed
 * are identified by their owner and their first bytes. Files of others are not even opened.
 */
static int open_ours(int directory, const char *path)
{
	char magic[sizeof sdt_magic];
	struct stat file;
	bool same;
	int fd;

	if (sdt_way_stat(directory, path, &file) != 0)
		return FAILED;
	if (file.st_uid != geteuid() ||
	    (file.st_uid == SDT_OVERFLOW_USER && !sdt_all_users_mapped()))
		return TAKEN;
	if (!S_ISREG(file.st_mode))
		return OTHER;
	fd = openat(directory, sdt_way_name(path), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return FAILED;
	same = sdt_file_is(fd, file.st_dev, file.st_ino);
	if (same && pread(fd, magic, sizeof magic, 0) == sizeof magic &&
	    memcmp(magic, sdt_magic, sizeof magic) == 0)
		return fd;
	close(fd);
	return same ? OTHER : TAKEN; /* by a process that works on the same files */
}

/*
 * lock_ended locks a recording if its process has ended: a process locks its file as long as it
 * lives. Other processes neither rename nor remove a file with this lock, but one of them may have
 * done so before.
 */
static bool lock_ended(int fd, int directory, const char *path)
{
	struct stat file;

	return flock(fd, LOCK_EX | LOCK_NB) == 0 && sdt_way_stat(directory, path, &file) == 0 &&
	       sdt_file_is(fd, file.st_dev, file.st_ino);
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
 * sdt_recordfile_move_away renames the recording that an earlier process has left at a path, to the
 * path with the present time. It returns 1 if the path may be free by now, 0 if another process or
 * another user has it, and -1 if there is an error line, such as for a file of another kind.
 */
int sdt_recordfile_move_away(int directory, const char *path, char *line)
{
	static char name[SDT_PATH_SIZE + SDT_SUFFIX_SIZE]; /* the lock of the recording is held */
	int fd = open_ours(directory, path), status = 0;

	if (fd == TAKEN)
		return 0;
	if (fd == FAILED && errno == ENOENT)
		return 1;
	if (fd < 0)
		return sdt_fail_line(line, fd == OTHER ? "%s: the file there is not a recording" : "%s: %m",
				     path);
	if (lock_ended(fd, directory, path)) {
		add_suffix(name, sizeof name, path);
		status = sdt_way_rename(directory, path, name) == 0 || errno == EEXIST ? 1 : -1;
		if (status < 0)
			sdt_fail_line(line, "%s: rename it: %m", path);
	}
	close_locked(fd);
	return status;
}

/*
 * sdt_recordfile_expand writes the path of a process's recording. In the pattern, %p stands for the
 * PID.
 */
int sdt_recordfile_expand(const char *pattern, uint32_t pid, char path[SDT_PATH_SIZE])
{
	char *to = path;

	for (; *pattern; pattern++) {
		if (to - path >= SDT_PATH_SIZE - 11) /* a PID and a NUL */
			return -1;
		if (pattern[0] == '%' && pattern[1] == 'p') {
			to += sprintf(to, "%lu", (unsigned long)pid);
			pattern++;
		} else
			*to++ = *pattern;
	}
	*to = '\0';
	return 0;
}

/*
 * is_to reports whether a recording of a process can have this name: its path, followed by nothing,
 * a time, .PID or .PID.N.
 */
static bool is_to(const char *pattern, const char *name, uint32_t pid)
{
	static char expected[SDT_PATH_SIZE]; /* as above */
	size_t length;

	if (sdt_recordfile_expand(pattern, pid, expected) != 0)
		return false;
	length = strlen(expected);
	if (strncmp(name, expected, length) != 0)
		return false;
	name += length;
	if (!*name || is_suffix(name))
		return true;
	length = (size_t)snprintf(expected, sizeof expected, ".%lu", (unsigned long)pid);
	if (strncmp(name, expected, length) != 0)
		return false;
	name += length;
	return !*name || (*name == '.' && name[1] && !name[1 + strspn(name + 1, "0123456789")]);
}

/* The worth of a recording is its rank and, in the bits below, the time at which it began. */
enum { ENDED, BESIDE, CRASH, RANK_BIT = 62 };

static uint64_t worth_of(const unsigned char *head)
{
	uint64_t began = sdt_get_u64(head + SDT_OFF_HEAD_READING + 16), rank = CRASH;

	if (sdt_get_u64(head + SDT_OFF_CHUNKS) == 0)
		return 0; /* its process has ended before it was complete */
	if (sdt_get_u32(head + SDT_OFF_ENDED) != 0)
		rank = ENDED;
	else if (sdt_get_u32(head + SDT_OFF_BESIDE) != 0)
		rank = BESIDE;
	/* A damaged time does not change the rank. */
	return rank << RANK_BIT | (began & ((UINT64_C(1) << RANK_BIT) - 1));
}

/* A look at the recordings to a path. */
struct look {
	int directory;
	const char *pattern, *own; /* names in the directory */
	bool beside;    /* another process records that did not begin beside a third one */
	int count;      /* of the recordings of processes that have ended */
	uint64_t worth; /* the least of theirs */
	char least[NAME_MAX + 1];
};

static void look_at_file(struct look *look, const char *name)
{
	unsigned char head[128] = {0};
	int fd = open_ours(look->directory, name);
	uint64_t worth;
	bool ended;

	if (fd < 0)
		return;
	if (pread(fd, head, sizeof head, 0) > 0 &&
	    is_to(look->pattern, name, sdt_get_u32(head + SDT_OFF_PID))) {
		worth = worth_of(head);
		ended = flock(fd, LOCK_SH | LOCK_NB) == 0; /* others may look at the same time */
		look->count += ended;
		look->beside |= !ended && worth >> RANK_BIT == CRASH;
		if (ended && worth < look->worth) {
			look->worth = worth;
			snprintf(look->least, sizeof look->least, "%s", name);
		}
	}
	close_locked(fd);
}

/* look_at opens a file if its name begins like that of a recording to the path, and goes on. */
static bool look_at(void *data, const char *name)
{
	struct look *look = data;
	const char *process = strstr(look->pattern, "%p");
	size_t length = process ? (size_t)(process - look->pattern) : strlen(look->pattern);

	if (strncmp(name, look->pattern, length) == 0 && name[length] &&
	    strchr("-.0123456789", name[length]) && strcmp(name, look->own) != 0)
		look_at_file(look, name);
	return true;
}

static bool remove_least(const struct look *look)
{
	int fd = open_ours(look->directory, look->least);
	bool removed = fd >= 0 && lock_ended(fd, look->directory, look->least) &&
		       unlinkat(look->directory, look->least, 0) == 0;

	if (fd >= 0)
		close_locked(fd);
	return removed;
}

/*
 * sdt_recordfile_tidy keeps a number of recordings of ended processes to a path. If there are more,
 * it removes those of the least worth: recordings that were ended properly first, then those that
 * began beside another process, such as those of its children, and other crashes last; of each
 * rank, the oldest first. In the pattern, %p stands for the PID. If another process records that
 * did not begin beside a third one, this recording is marked as beside it.
 */
void sdt_recordfile_tidy(const struct sdt_recordfile *file, const char *path, const char *pattern)
{
	static struct sdt_entries entries;
	static struct look look;

	look.directory = file->directory;
	look.pattern = sdt_way_name(pattern);
	look.own = sdt_way_name(file->path);
	do {
		look.beside = false;
		look.count = 0;
		look.worth = UINT64_MAX;
		sdt_directory_visit(look.directory, ".", &entries, look_at, &look);
	} while ((look.count > KEPT || look.worth == 0) && remove_least(&look));
	if (look.beside || strcmp(file->path, path) != 0)
		file->memory.bytes[SDT_OFF_BESIDE] = 1;
}
