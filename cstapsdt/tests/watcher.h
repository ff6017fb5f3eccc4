/* A watcher of a process, which tests are themselves. Package wire of Go speaks the protocol whole. */
#ifndef WATCHER_H
#define WATCHER_H

#include "test.h"

#include "recording.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Where the sockets are. */
static char directory[] = "/tmp/sdtsocket-XXXXXX";

/* watcher_main runs tests with the directory, which they leave empty. */
static inline int watcher_main(const char *suite, const struct test *tests, size_t count)
{
	int status;

	if (!mkdtemp(directory) || setenv("STAPSDT_DIR", directory, 1) != 0)
		return 1;
	status = test_main(suite, tests, count);
	if (rmdir(directory) != 0)
		printf("# %s is left\n", directory);
	return status;
}

static inline void listen_here(void)
{
	CHECK(sdtListen() == 0);
	if (*sdtError())
		printf("# %s\n", sdtError());
}

/* address_of returns the address of the socket of a process, of which the directory has one. */
static inline struct sockaddr_un address_of(pid_t process)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	DIR *entries = opendir(directory);
	struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (atoi(entry->d_name) == process)
			snprintf(address.sun_path, sizeof address.sun_path, "%.40s/%.60s", directory,
				 entry->d_name);
	if (entries)
		closedir(entries);
	return address;
}

/* A watcher: its connection, and what it has mapped. */
struct watcher {
	int fd;
	uint64_t size;
	unsigned char *memory;
};

static inline void put_number(unsigned char *to, uint64_t number, int size)
{
	for (; size > 0; size--, number >>= 8)
		*to++ = (unsigned char)number;
}

static inline void request(const struct watcher *w, uint32_t kind, const unsigned char *body, size_t size)
{
	unsigned char message[128];

	put_number(message, size, 4);
	put_number(message + 4, kind, 4);
	memcpy(message + 8, body, size);
	CHECK(write(w->fd, message, 8 + size) == (ssize_t)(8 + size));
}

/* answer reads a message of a kind, of so many bytes, and returns the descriptor that comes with it, or -1. */
static inline int answer(const struct watcher *w, uint32_t kind, unsigned char *body, size_t size)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	unsigned char head[8];
	struct iovec part = {head, sizeof head};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int fd = -1;

	CHECK(recvmsg(w->fd, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) == sizeof head);
	CHECK(rec_number(head, 4) == size && rec_number(head + 4, 4) == kind);
	if (message.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	if (size > 0)
		CHECK(recv(w->fd, body, size, MSG_WAITALL) == (ssize_t)size);
	return fd;
}

static inline struct watcher connect_to(pid_t process)
{
	static const unsigned char hello[24] = "STAPSOCK\1";
	struct sockaddr_un address = address_of(process);
	struct watcher w = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	unsigned char body[24];
	int tries = 0;

	while (connect(w.fd, (const struct sockaddr *)&address, sizeof address) != 0 && tries++ < 10000)
		usleep(1000); /* the socket has its name before it listens */
	request(&w, 1, hello, sizeof hello);
	CHECK(answer(&w, 1, body, sizeof body) == -1);
	CHECK(rec_number(body + 12, 4) == (uint64_t)process);
	return w;
}

/* watch_all watches all probes, with memory of 1 MiB. */
static inline void watch_all(struct watcher *w)
{
	unsigned char body[22] = {0};
	int fd;

	put_number(body, 1 << 20, 8);
	put_number(body + 8, 1, 4);
	put_number(body + 16, 1, 2);
	put_number(body + 18, 1, 2);
	body[20] = body[21] = '*';
	request(w, 5, body, sizeof body);
	fd = answer(w, 6, body, 8);
	w->size = rec_number(body, 8);
	w->memory = mmap(NULL, w->size, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(w->memory != MAP_FAILED);
	CHECK(mmap(NULL, w->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	close(fd);
}

/* committed_in returns how many events were committed to the memory or counted as lost. */
static inline uint64_t committed_in(const struct watcher *w)
{
	struct recording r;

	bool whole = w->memory != MAP_FAILED && rec_parse(&r, w->memory, w->size);

	CHECK(whole);
	return whole ? rec_total(&r) : 0;
}

static inline void end_watch(struct watcher *w)
{
	request(w, 7, (const unsigned char *)"", 0);
	CHECK(answer(w, 4, NULL, 0) == -1);
}

static inline void disconnect(struct watcher *w)
{
	munmap(w->memory, w->size);
	close(w->fd);
}

#endif
