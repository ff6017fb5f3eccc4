/*
 * The declarations of the files that serve watchers: docs/protocol.md. All of it runs in one
 * thread.
 */
#ifndef SDT_SOCKET_H
#define SDT_SOCKET_H

#include "../recorder/recorder.h"

#include <limits.h>

#define SDT_WIRE(name, value) \
	static const uint32_t SDT_WIRE_##name __attribute__((unused)) = (value);
#include "wire.def"
#undef SDT_WIRE

enum {
	SDT_CONNECTIONS = 32,
	SDT_BODY_SIZE = 65536, /* SDT_WIRE_MAX_BODY, for arrays */
	SDT_NO_SINK = SDT_FILE_SINK /* no watcher has that one */
};

/* The program that listens. */
struct sdt_listener {
	int fd;
	uint32_t pid;
	uint64_t start; /* in ticks since the boot */
	char path[PATH_MAX];
};

/* place.c: the path of the socket. sdt_place_open writes an error line. */
int sdt_place_socket(void);
void sdt_place_prepare(void);
int sdt_place_open(struct sdt_listener *listener, char *line);
void sdt_place_tidy(const struct sdt_listener *listener, const uint32_t *stopping);
bool sdt_place_refuses(const char *path);
bool sdt_place_admits(int connection);

/* watchmemory.c: the memory that a watcher reads, and its descriptor until it is sent. */
struct sdt_watch_memory {
	struct sdt_memory memory;
	uint64_t size;
	int fd;
};

int sdt_watch_memory_make(struct sdt_watch_memory *memory, uint64_t bytes, uint64_t room,
			  uint32_t pid);
void sdt_watch_memory_free(struct sdt_watch_memory *memory, bool unmap);

/* message.c: the messages that wait to be sent. */
struct sdt_outbox {
	unsigned char *data;
	size_t size, capacity, sent;
	bool failed;
	int fd;       /* goes with the byte at fd_at, or -1 */
	size_t fd_at;
};

void sdt_outbox_add(struct sdt_outbox *outbox, uint32_t kind, const void *body, size_t size);
void sdt_outbox_fail(struct sdt_outbox *outbox, uint32_t code, const char *text);
void sdt_outbox_free(struct sdt_outbox *outbox);
bool sdt_outbox_send(struct sdt_outbox *outbox, int connection);

/* connection.c: a connected process. */
struct sdt_connection {
	int fd;
	bool greeted;
	bool closing;      /* when the waiting messages are sent */
	int sink;          /* SDT_NO_SINK unless it watches */
	uint64_t deadline; /* by the monotonic clock, or UINT64_MAX */
	struct sdt_watch_memory memory;
	struct sdt_patterns patterns;
	struct sdt_outbox outbox;
	size_t received;
	unsigned char input[8 + SDT_BODY_SIZE];
	unsigned char watch[SDT_BODY_SIZE]; /* the request that contains the patterns */
};

struct sdt_connection *sdt_connection_make(int fd);
bool sdt_connection_serve(struct sdt_connection *connection, const struct sdt_listener *listener,
			  short events);
void sdt_connection_close(struct sdt_connection *connection);
void sdt_connections_forget(void);

/*
 * The signal that wakes the thread. All signals are blocked in the thread, which reads this one
 * from a descriptor: so it can be woken without a file, without /proc, and without a descriptor of
 * the program's. By default, nothing happens to a process that gets it.
 */
#define SDT_WAKING_SIGNAL SIGURG

/* server.c: what the thread does. The others write to the last three members. */
struct sdt_server {
	struct sdt_listener listener;
	int signals;       /* the descriptor from which the thread reads its signal, or -1 */
	uint32_t stopping; /* whether the thread is to end */
	uint32_t wakes;    /* the number of signals that were sent to it */
	uint64_t forked;   /* when the process was last forked, or 0 */
};

/* After how many nanoseconds the directory is tidied again. Tests set another number. */
extern uint64_t sdt_tidy_interval;

/*
 * sdt_server_open writes a line of error. sdt_server_forget is for a forked child, which has no
 * thread.
 */
int sdt_server_open(struct sdt_server *server, char *line);
void sdt_server_run(struct sdt_server *server, bool tidy);
void sdt_server_forget(struct sdt_server *server);

#endif
