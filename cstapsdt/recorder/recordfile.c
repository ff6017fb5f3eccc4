/*
 * The file of a recording: its room is reserved, its process has locked it, and it is complete when
 * it gets its name. internal/recording/recordfile does the same for Go.
 */
#include "../recorder.h"

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

enum { MOST_BESIDE = 1000 }; /* recordings beside one */

/*
 * check_directory refuses a directory in which, or a link with which, another user could replace a
 * recording.
 */
static int check_directory(const struct stat *status, const char *directory, char *line)
{
	if (status->st_uid != 0 && status->st_uid != geteuid())
		return sdt_fail_line(line, "%s: it belongs to user %lu, who could replace a recording", directory,
				     (unsigned long)status->st_uid);
	if ((status->st_mode & (S_IWGRP | S_IWOTH)) && !(status->st_mode & S_ISVTX))
		return sdt_fail_line(line, "%s: other users may write to it, and could replace a recording: chmod go-w keeps them out",
				     directory);
	return 0;
}

enum { MAX_LINKS = 40 }; /* the number of links that the kernel follows */

/*
 * check_way refuses an absolute path that another user could redirect: it checks each directory and
 * each link. On the way, a directory of root may be writable for a group that root has chosen, as
 * /var/log is, and a mounted directory may be writable for everyone: a volume of Kubernetes is like
 * that, and all its users share the pod.
 */
static int check_way(const char *directory, char *line)
{
	static char at[SDT_PATH_SIZE], rest[2 * SDT_PATH_SIZE], link[SDT_PATH_SIZE]; /* as in check_place */
	struct stat above, status;
	const bool mapped = sdt_all_users_mapped();
	int links = 0;

	*at = '\0';
	snprintf(rest, sizeof rest, "%s", directory);
	for (;;) {
		const char *name = rest + strspn(rest, "/");
		size_t length = strcspn(name, "/"), left = strlen(name + length), used = strlen(at);
		ssize_t size = 0;

		if (length == 0)
			return 0;
		if (length == 2 && memcmp(name, "..", 2) == 0)
			*(used ? strrchr(at, '/') : at) = '\0'; /* which was checked */
		else if (length != 1 || *name != '.') {
			if (lstat(used ? at : "/", &above) != 0)
				return sdt_fail_line(line, "%s: %m", directory);
			if (used + length + 2 > sizeof at)
				return sdt_fail_line(line, "%.64s...: the path is too long", directory);
			at[used] = '/';
			memcpy(at + used + 1, name, length);
			at[used + 1 + length] = '\0';
			if (lstat(at, &status) != 0)
				return sdt_fail_line(line, "%s: %m", at);
			if (status.st_uid == SDT_OVERFLOW_USER && !mapped)
				status.st_uid = 0; /* unknown; the root of a sandbox often belongs to such a user */
			if (S_ISLNK(status.st_mode)) {
				size = readlink(at, link, sizeof link);
				if (size <= 0 || ++links > MAX_LINKS || (size_t)size + left >= sizeof rest)
					return sdt_fail_line(line, "%s: it leads nowhere", at);
				status.st_mode = 0; /* a link's mode grants everyone everything */
			} else if (status.st_dev != above.st_dev)
				status.st_mode |= S_ISVTX;
			if (status.st_uid == 0 && left)
				status.st_mode &= ~(mode_t)S_IWGRP;
			if (check_directory(&status, at, line) != 0)
				return -1;
			if (size)
				at[*link == '/' ? 0 : used] = '\0';
		}
		memmove(rest + size, name + length, left + 1);
		memcpy(rest, link, (size_t)size);
	}
}

/*
 * check_file_system refuses a file system on which allocated room is not guaranteed. It takes the
 * path, because it is called before the directory is opened, which could wait.
 */
static int check_file_system(const char *directory, uint64_t size, char *line)
{
	const char *remote = sdt_remote_filesystem(directory);
	struct statfs status;
	uint32_t type;
	uint64_t room;

	if (remote)
		return sdt_fail_line(line, "%s: it is on %s, where a program that records could wait or fail",
				     directory, remote);
	if (statfs(directory, &status) != 0)
		return sdt_fail_line(line, "%s: %m", directory);
	type = (uint32_t)status.f_type;
	if (type == (uint32_t)BTRFS || type == ZFS || type == BCACHEFS)
		return sdt_fail_line(line, "%s: its file system (type %#x) writes each change to another place, and "
					   "cannot promise room",
				     directory, type);
	room = type == TMPFS ? sdt_memory_room() : UINT64_MAX;
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
	return write(fd, head, sizeof head) == sizeof head ? fsync(fd) : -1;
}

/*
 * open_locked creates a file beside the recording and locks it. A file of the same name is from an
 * earlier process with the same PID, and is moved away.
 */
static int open_locked(struct sdt_recordfile *file, const char *recording, char *line)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	const char *path = file->path;

	for (int tries = 0; tries < SDT_RECORDFILE_TRIES; tries++) {
		file->fd = open(path, flags, 0600);
		if (file->fd >= 0 && make_known(file->fd) == 0)
			return 0;
		if (file->fd >= 0) {
			sdt_fail_line(line, "%s: lock it: %m", path);
			sdt_recordfile_discard(file);
			return -1;
		}
		if (errno != EEXIST)
			return sdt_fail_line(line, "%s: %m", path);
		switch (sdt_recordfile_move_away(path, recording, line)) {
		case SDT_MOVED:
			continue;
		case SDT_TAKEN:
			sdt_fail_line(line, "%s: it is in use by another process, or belongs to another user", path);
			return TAKEN;
		case SDT_OTHER:
			return TAKEN;
		case SDT_NOT_MOVED:
			return -1;
		}
	}
	return sdt_fail_line(line, "%s: other processes keep creating it", path);
}

/*
 * create_beside creates the file under a name of this process: PATH.PID or, where that is taken,
 * PATH.PID.2 and so on. The name can be taken by a process with the same PID in another container,
 * or by an attacker, so the last attempts use random numbers.
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
		status = open_locked(file, path, line);
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
				     (unsigned long long)file->size, (unsigned long long)room.f_bavail * (unsigned long long)room.f_bsize);
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

/*
 * sdt_recordfile_make_directory makes the last directory of a path, for this user alone, if it is
 * missing, unless the file system of its parent could wait.
 */
int sdt_recordfile_make_directory(const char *path, char *line)
{
	static char directory[SDT_PATH_SIZE], above[SDT_PATH_SIZE]; /* as in check_place */
	struct stat status;

	sdt_recordfile_directory(path, directory);
	sdt_recordfile_directory(directory, above);
	if (sdt_remote_filesystem(above) || stat(directory, &status) == 0 || errno != ENOENT)
		return 0; /* check_place finds what is wrong */
	if (mkdir(directory, 0700) == 0)
		(void)chmod(directory, 0700); /* the umask may have removed some bits */
	else if (errno != EEXIST)
		return sdt_fail_line(line, "%s: %m", directory);
	return 0;
}

static int check_place(const char *path, uint64_t size, char *line)
{
	static char directory[SDT_PATH_SIZE]; /* the lock of the recording is held, and a fire may have little stack */
	struct stat last;

	if (strlen(path) >= SDT_PATH_SIZE - SDT_SUFFIX_SIZE)
		return sdt_fail_line(line, "%.64s...: the path is too long", path);
	sdt_recordfile_directory(path, directory);
	if (check_file_system(directory, size, line) != 0 || check_limit(size, line) != 0)
		return -1;
	if (stat(directory, &last) != 0)
		return sdt_fail_line(line, "%s: %m", directory);
	return check_directory(&last, directory, line) != 0 ? -1 : check_way(directory, line);
}

/*
 * sdt_recordfile_create makes the file of a recording, with all of its room, under a temporary
 * name of this process. sdt_recordfile_publish gives it the final name when it is complete.
 */
int sdt_recordfile_create(struct sdt_recordfile *file, const char *path, uint64_t bytes, char *line)
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
	if (check_place(path, file->size, line) != 0)
		return -1;
	if (create_beside(file, path, line) != 0)
		return -1;
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
	for (int tries = 0; tries < SDT_RECORDFILE_TRIES; tries++) {
		if (sdt_directory_rename(file->path, path) == 0) {
			strcpy(file->path, path);
			return 0;
		}
		if (errno != EEXIST)
			return sdt_fail_line(line, "rename %s to %s: %m", file->path, path);
		switch (sdt_recordfile_move_away(path, path, line)) {
		case SDT_MOVED:
			continue;
		case SDT_TAKEN:
			return 0;
		case SDT_OTHER:
		case SDT_NOT_MOVED:
			return -1;
		}
	}
	return sdt_fail_line(line, "%s: other processes keep creating it", path);
}

/* sdt_recordfile_discard removes a file that was not published. */
void sdt_recordfile_discard(struct sdt_recordfile *file)
{
	unlink(file->path);
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
}
