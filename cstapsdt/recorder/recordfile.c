/*
 * The file of a recording: its room is reserved, its process has locked it, and it is complete when
 * it gets its name. internal/recording/recordfile does the same for Go.
 */
#include "recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/*
 * File systems that write each change to another place (copy-on-write), so that an allocated
 * block does not guarantee room, and the file system in memory.
 */
enum { BTRFS = 0x9123683e, ZFS = 0x2fc12fc1, TMPFS = 0x01021994 };
#define BCACHEFS 0xca451a4e

enum {
	MOST_BESIDE = 1000, /* names beside a recording */
	MOST_TRIES = 100    /* with a path that other processes take and leave meanwhile */
};

/* check_file_system refuses a file system on which allocated room is not guaranteed. */
static int check_file_system(int fd, const char *directory, uint64_t size, char *line)
{
	struct statfs status;
	bool unknown;
	uint32_t type;
	uint64_t room;

	if (fstatfs(fd, &status) != 0)
		return sdt_fail_line(line, "%s: %m", directory);
	type = (uint32_t)status.f_type;
	if (type == (uint32_t)BTRFS || type == ZFS || type == BCACHEFS)
		return sdt_fail_line(line, "%s: its file system (type %#x) writes each change to another place, and "
					   "cannot promise room",
				     directory, type);
	room = type == TMPFS ? sdt_memory_room(&unknown) : UINT64_MAX;
	if (size > room)
		return sdt_fail_line(line, "%s: a recording of %llu bytes is memory of the program, for which %llu are left",
				     directory, (unsigned long long)size, (unsigned long long)room);
	return 0;
}

/* check_limit refuses a size for which the kernel would send SIGXFSZ. */
static int check_limit(uint64_t size, char *line)
{
	uint64_t limit = sdt_file_limit();

	if (size > limit)
		return sdt_fail_line(line, "a recording of %llu bytes is larger than the limit of files "
					   "(RLIMIT_FSIZE), %llu",
				     (unsigned long long)size, (unsigned long long)limit);
	return 0;
}

enum { TAKEN = -2 }; /* the name is in use */

/*
 * make_known locks a file that was just made, and then marks it as a recording, so that the process
 * of a recording that is not locked is known to have ended. The mark survives a power failure.
 */
static int make_known(int fd)
{
	unsigned char head[64] = {0};

	memcpy(head, sdt_magic, sizeof sdt_magic);
	sdt_put_u32(head + SDT_OFF_PID, (uint32_t)getpid());
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return -1;
	return pwrite(fd, head, sizeof head, 0) == sizeof head ? fsync(fd) : -1;
}

/*
 * open_locked creates a file beside the recording and locks it. The sticky bit protects it from
 * programs that clean directories by age (tmpfiles.d(5)), because writes to a mapping rarely change
 * the time of its file. Recordings of earlier processes keep the bit.
 */
static int open_locked(struct sdt_recordfile *file, char *line)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	struct sdt_standard standard;
	int made;

	sdt_standard_occupy(&standard);
	made = openat(file->directory, sdt_way_name(file->path), flags, 0600 | S_ISVTX);
	file->fd = sdt_standard_release(&standard, made);
	if (file->fd < 0) {
		bool taken = made < 0 && errno == EEXIST;

		sdt_fail_line(line, "%s: %m", file->path);
		if (made >= 0)
			sdt_recordfile_discard(file);
		return taken ? TAKEN : -1;
	}
	if (make_known(file->fd) == 0)
		return 0;
	sdt_fail_line(line, "%s: lock it: %m", file->path);
	sdt_recordfile_discard(file);
	return -1;
}

/*
 * create_beside creates the file under a name of this process: PATH.PID or, where that is taken,
 * PATH.PID.2 and so on. An earlier process with the same PID can have left the name, one in another
 * container can have it, or an attacker, so the last attempts use random numbers.
 */
static int create_beside(struct sdt_recordfile *file, const char *path, char *line)
{
	unsigned long pid = file->memory.pid;
	struct timespec now;
	int status = TAKEN;

	for (int n = 1; n <= MOST_BESIDE && status == TAKEN; n++) {
		clock_gettime(CLOCK_REALTIME, &now);
		if (n == 1)
			snprintf(file->path, sizeof file->path, "%s.%lu", path, pid);
		else
			snprintf(file->path, sizeof file->path, "%s.%lu.%ld", path, pid,
				 n <= MOST_BESIDE / 2 ? (long)n : now.tv_nsec);
		status = open_locked(file, line);
	}
	return status == 0 ? 0 : -1;
}

/* map_room reserves all the room of the file, so that no write to it needs more, and maps it. */
static int map_room(struct sdt_recordfile *file, char *line)
{
	struct stat status;
	struct statfs room;
	void *memory;
	int failed;

	do
		failed = fallocate(file->fd, 0, 0, (off_t)file->size);
	while (failed != 0 && errno == EINTR);
	if (failed != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		return sdt_fail_line(line, "%s: its file system cannot promise room for it", file->path);
	if (failed != 0 && errno == ENOSPC && fstatfs(file->fd, &room) == 0)
		return sdt_fail_line(line, "%s: a recording takes %llu bytes, but its file system has %llu", file->path,
				     (unsigned long long)file->size,
				     (unsigned long long)room.f_bavail * (unsigned long long)room.f_bsize);
	if (failed != 0)
		return sdt_fail_line(line, "%s: allocate %llu bytes: %m", file->path,
				     (unsigned long long)file->size);
	memory = mmap(NULL, (size_t)file->size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (memory == MAP_FAILED || fstat(file->fd, &status) != 0)
		return sdt_fail_line(line, "%s: map it: %m", file->path);
	/* A forked child does not inherit the mapping. */
	(void)madvise(memory, (size_t)file->size, MADV_DONTFORK);
	file->memory.bytes = memory;
	file->dev = status.st_dev;
	file->ino = status.st_ino;
	return 0;
}

static void write_directory(const char *path, char directory[SDT_PATH_SIZE])
{
	const char *slash = strrchr(path, '/');
	int length = slash && slash > path ? (int)(slash - path) : 1;

	snprintf(directory, SDT_PATH_SIZE, "%.*s", length, slash ? path : ".");
}

/* open_place opens the directory of a recording. */
static int open_place(struct sdt_recordfile *file, const char *path, bool makes, char *line)
{
	static char directory[SDT_PATH_SIZE]; /* the lock is held, and a fire may have little stack */
	const char *name = sdt_way_name(path);

	if (strlen(path) >= SDT_PATH_SIZE - SDT_SUFFIX_SIZE)
		return sdt_fail_line(line, "%.64s...: the path is too long", path);
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return sdt_fail_line(line, "%s: it is a directory", path);
	write_directory(path, directory);
	file->directory = sdt_way_open(directory, makes, line);
	if (file->directory < 0)
		return -1;
	if (check_file_system(file->directory, directory, file->size, line) != 0)
		return -1;
	return check_limit(file->size, line);
}

/*
 * sdt_recordfile_create makes the file of a recording, with all of its room, under a temporary
 * name of this process. sdt_recordfile_publish gives it the final name when it is complete. If
 * makes is true, the last directory of the path is made for this user alone if it is missing.
 */
int sdt_recordfile_create(struct sdt_recordfile *file, const char *path, uint64_t bytes, bool makes,
			  char *line)
{
	uint64_t chunks = sdt_recording_chunks(bytes);

	if (bytes > SDT_MAX_RECORDING)
		return sdt_fail_line(line, "%s: a recording has at most %d bytes", path, SDT_MAX_RECORDING);
	/*
	 * Each step follows the previous one: a child that is forked meanwhile closes the
	 * descriptor.
	 */
	file->dev = 0;
	file->size = sdt_recording_size(chunks);
	file->memory = (struct sdt_memory){.chunks = chunks, .pid = (uint32_t)getpid()};
	if (open_place(file, path, makes, line) != 0 || create_beside(file, path, line) != 0) {
		sdt_recordfile_leave(file);
		return -1;
	}
	if (map_room(file, line) == 0)
		return 0;
	sdt_recordfile_discard(file);
	return -1;
}

/*
 * sdt_recordfile_publish gives the file the requested path, unless another process records there,
 * or another user has a file there. In that case, this process records beside it.
 */
int sdt_recordfile_publish(struct sdt_recordfile *file, const char *path, char *line)
{
	int again;

	for (int tries = 0; tries < MOST_TRIES; tries++) {
		if (sdt_way_rename(file->directory, file->path, path) == 0) {
			strcpy(file->path, path);
			return 0;
		}
		if (errno != EEXIST)
			return sdt_fail_line(line, "rename %s to %s: %m", file->path, path);
		again = sdt_recordfile_move_away(file->directory, path, line);
		if (again <= 0)
			return again;
	}
	return sdt_fail_line(line, "%s: other processes keep creating it", path);
}

/* sdt_recordfile_leave closes the directory of a file, which then keeps its name. */
void sdt_recordfile_leave(struct sdt_recordfile *file)
{
	int fd = file->directory;

	file->directory = -1; /* before a child could close it too */
	if (fd >= 0)
		close(fd);
}

/* sdt_recordfile_discard removes a file that was not published. */
void sdt_recordfile_discard(struct sdt_recordfile *file)
{
	unlinkat(file->directory, sdt_way_name(file->path), 0);
	sdt_recordfile_close(file, true);
}

/*
 * sdt_recordfile_close unlocks the file, and unmaps it unless a fire may still be in it. The
 * program may have closed the descriptor, as a daemon that closes all descriptors does; another
 * file may then have its number.
 */
void sdt_recordfile_close(struct sdt_recordfile *file, bool unmap)
{
	int fd = file->fd;

	if (unmap && file->memory.bytes)
		munmap(file->memory.bytes, (size_t)file->size);
	file->memory.bytes = NULL;
	__atomic_store_n(&file->fd, -1, __ATOMIC_SEQ_CST); /* before a child could close it too */
	if (fd >= 0 && (!file->dev || sdt_file_is(fd, file->dev, file->ino)))
		close(fd);
	sdt_recordfile_leave(file);
}
