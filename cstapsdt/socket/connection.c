/* A connected process: its requests, one after another, and its watch. */
#include "socket.h"

#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * All watchers have at most MAX_MEMORY, and a 16th of what the control group has left, or
 * MAX_UNKNOWN if the process may have a limit that it does not see.
 */
#define MAX_MEMORY ((uint64_t)128 << 20)
#define MAX_UNKNOWN ((uint64_t)8 << 20)
#define SECOND UINT64_C(1000000000)

/*
 * The time that a connection without a watch may be silent, and the time that it may take to read
 * an answer.
 */
#define REQUEST_PATIENCE (10 * SECOND)
#define ANSWER_PATIENCE (5 * SECOND)
#define END_PAUSE (SECOND / 100)

static const char magic[8] = "STAPSOCK"; /* without a NUL */

static uint64_t used_memory; /* in use by the watchers; only the thread of the socket accesses it */

/* sdt_connection_make returns NULL if there is no memory. */
struct sdt_connection *sdt_connection_make(int fd)
{
	struct sdt_connection *connection =
		mmap(NULL, sizeof *connection, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (connection == MAP_FAILED)
		return NULL;
	(void)madvise(connection, sizeof *connection, MADV_DONTFORK);
	connection->fd = fd;
	connection->memory.fd = connection->outbox.fd = -1;
	connection->deadline = sdt_monotonic() + REQUEST_PATIENCE;
	return connection;
}

static bool greet_watcher(struct sdt_connection *connection, const struct sdt_listener *listener,
		  uint32_t kind, const unsigned char *body, size_t size)
{
	unsigned char hello[24];
	uint32_t major;

	if (kind != SDT_WIRE_HELLO || size < sizeof magic + 4 || memcmp(body, magic, sizeof magic) != 0)
		return false;
	major = sdt_get_u16(body + 8);
	if (major == SDT_WIRE_MAJOR && size < sizeof hello)
		return false;
	memcpy(hello, magic, sizeof magic);
	sdt_put_u16(hello + 8, SDT_WIRE_MAJOR);
	sdt_put_u16(hello + 10, SDT_WIRE_MINOR);
	sdt_put_u32(hello + 12, listener->pid);
	sdt_put_u64(hello + 16, listener->start);
	sdt_outbox_add(&connection->outbox, SDT_WIRE_HELLO, hello, sizeof hello);
	connection->greeted = true;
	connection->closing = major != SDT_WIRE_MAJOR;
	return true;
}

/* list_provider adds the probes of a provider to a body, which it sends when it is full. */
static void list_provider(struct sdt_outbox *outbox, const struct sdt_provider *provider,
			  unsigned char *body, size_t *used)
{
	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p)) {
		size_t size = sdt_describe_probe(provider, p, body + *used, SDT_BODY_SIZE - *used);

		if (size == 0) {
			sdt_outbox_add(outbox, SDT_WIRE_PROBES, body, *used);
			*used = 0;
			/* A probe is left out if its names do not fit in a message. */
			size = sdt_describe_probe(provider, p, body, SDT_BODY_SIZE);
		}
		*used += size;
	}
}

static void list_probes(struct sdt_connection *connection)
{
	static unsigned char body[SDT_BODY_SIZE]; /* only the thread of the socket uses it */
	const struct sdt_provider *provider = NULL;
	size_t used = 0;

	sdt_observe_lock();
	while ((provider = sdt_observe_next(provider)))
		list_provider(&connection->outbox, provider, body, &used);
	sdt_observe_unlock();
	if (used > 0)
		sdt_outbox_add(&connection->outbox, SDT_WIRE_PROBES, body, used);
	sdt_outbox_add(&connection->outbox, SDT_WIRE_DONE, NULL, 0);
}

/* are_patterns reports whether the body of a watch is well-formed. */
static bool are_patterns(const unsigned char *body, size_t size)
{
	size_t at = 16;
	uint32_t count;

	if (size < at)
		return false;
	count = sdt_get_u32(body + 8);
	if (count > SDT_WIRE_MAX_PATTERNS)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (size - at < 4)
			return false;
		at += 4 + (size_t)sdt_get_u16(body + at) + sdt_get_u16(body + at + 2);
		if (at > size)
			return false;
	}
	return true;
}

static void fail_request(struct sdt_connection *connection, const char *text)
{
	sdt_outbox_fail(&connection->outbox, SDT_WIRE_CODE_MALFORMED, text);
	connection->closing = true;
}

/*
 * room_for_watch returns the size of the memory that a watch may have. It reserves some for each
 * later watch.
 */
static uint64_t room_for_watch(void)
{
	bool unknown;
	uint64_t room = sdt_memory_room(&unknown) / 16, left = unknown ? MAX_UNKNOWN : MAX_MEMORY;
	uint64_t later = SDT_WATCHERS - 1; /* without this one */
	uint64_t taken;

	for (int sink = 1; sink < SDT_SINKS; sink++)
		later -= sdt_sinks[sink].active;
	taken = used_memory + later * sdt_recording_size(sdt_recording_chunks(0));
	left = taken < left ? left - taken : 0; /* the limit may have been seen before */
	return room < left ? room : left;
}

/*
 * begin_watch begins to append events to memory, and sends the descriptor of the memory.
 */
static int begin_watch(struct sdt_connection *connection, int sink, uint64_t bytes, uint32_t pid)
{
	struct sdt_watch_memory *memory = &connection->memory;
	int status;

	if (sdt_watch_memory_make(memory, bytes, room_for_watch(), pid) != 0)
		return -1;
	sdt_observe_lock();
	status = sdt_observe_begin(sink, &memory->memory, &connection->patterns);
	sdt_observe_unlock();
	if (status != 0) {
		sdt_watch_memory_free(memory, true);
		return -1;
	}
	connection->sink = sink;
	used_memory += memory->size;
	return 0;
}

static void handle_watch(struct sdt_connection *connection, const struct sdt_listener *listener,
		  const unsigned char *body, size_t size)
{
	struct sdt_outbox *outbox = &connection->outbox;
	unsigned char answer[8];
	int sink = 1;

	if (!are_patterns(body, size)) {
		fail_request(connection, "the patterns are malformed");
		return;
	}
	if (connection->sink != SDT_NO_SINK) {
		fail_request(connection, "the connection watches already");
		return;
	}
	while (sink < SDT_SINKS && sdt_sinks[sink].active)
		sink++;
	if (sink == SDT_SINKS) {
		sdt_outbox_fail(outbox, SDT_WIRE_CODE_BUSY, "8 processes watch it already");
		return;
	}
	memcpy(connection->watch, body, size);
	connection->patterns = (struct sdt_patterns){sdt_get_u32(body + 8), connection->watch + 16};
	if (begin_watch(connection, sink, sdt_get_u64(body), listener->pid) != 0) {
		sdt_outbox_fail(outbox, SDT_WIRE_CODE_MEMORY, "it has no memory for another watcher");
		return;
	}
	sdt_put_u64(answer, connection->memory.size);
	outbox->fd = connection->memory.fd;
	outbox->fd_at = outbox->size;
	sdt_outbox_add(outbox, SDT_WIRE_WATCHING, answer, sizeof answer);
}

/*
 * rest_after_watch waits until some time after a watch has ended: the end of a watch makes all
 * threads pass a barrier, and watchers may come and go without end.
 */
static void rest_after_watch(void)
{
	static uint64_t ended; /* the last one */
	uint64_t now = sdt_monotonic();

	if (now - ended < END_PAUSE)
		nanosleep(&(struct timespec){.tv_nsec = (long)(END_PAUSE - (now - ended))}, NULL);
	ended = sdt_monotonic();
}

/*
 * end_watch ends a watch: the memory then has every event that was fired, and states that it has
 * ended.
 */
static void end_watch(struct sdt_connection *connection)
{
	uint64_t size = connection->memory.size;
	bool quiet;

	if (connection->sink == SDT_NO_SINK)
		return;
	rest_after_watch();
	sdt_observe_lock();
	quiet = sdt_observe_end(connection->sink);
	sdt_observe_unlock();
	used_memory -= size;
	connection->sink = SDT_NO_SINK;
	connection->outbox.fd = -1;
	sdt_watch_memory_free(&connection->memory, quiet);
}

static void answer_request(struct sdt_connection *connection, const struct sdt_listener *listener,
		   uint32_t kind, const unsigned char *body, size_t size)
{
	char text[96];

	if (kind == SDT_WIRE_LIST)
		list_probes(connection);
	else if (kind == SDT_WIRE_WATCH)
		handle_watch(connection, listener, body, size);
	else if (kind == SDT_WIRE_END) {
		end_watch(connection);
		sdt_outbox_add(&connection->outbox, SDT_WIRE_DONE, NULL, 0);
	} else {
		snprintf(text, sizeof text, "the program speaks version %lu.%lu, which has no request %lu",
			 (unsigned long)SDT_WIRE_MAJOR, (unsigned long)SDT_WIRE_MINOR,
			 (unsigned long)kind);
		sdt_outbox_fail(&connection->outbox, SDT_WIRE_CODE_UNKNOWN, text);
	}
}

/*
 * take_request answers the first request of the input. It reports false if no complete request is
 * there.
 */
static bool take_request(struct sdt_connection *connection, const struct sdt_listener *listener)
{
	unsigned char *input = connection->input;
	size_t size = connection->received < SDT_WIRE_HEAD_BYTES ? 0 : sdt_get_u32(input);
	uint32_t kind;

	if (size > SDT_WIRE_MAX_BODY) {
		connection->closing = true;
		return false;
	}
	if (connection->received < SDT_WIRE_HEAD_BYTES + size)
		return false;
	kind = sdt_get_u32(input + 4);
	if (connection->greeted)
		answer_request(connection, listener, kind, input + SDT_WIRE_HEAD_BYTES, size);
	else if (!greet_watcher(connection, listener, kind, input + SDT_WIRE_HEAD_BYTES, size))
		connection->closing = true;
	size += SDT_WIRE_HEAD_BYTES;
	connection->received -= size;
	memmove(input, input + size, connection->received);
	return true;
}

/* receive_input reads the available input, and reports false at its end or after an error. */
static bool receive_input(struct sdt_connection *connection)
{
	ssize_t size = recv(connection->fd, connection->input + connection->received,
			    sizeof connection->input - connection->received, MSG_DONTWAIT);

	if (size > 0)
		connection->received += (size_t)size;
	return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

/* flush_outbox sends the waiting messages, and sets the next deadline. */
static bool flush_outbox(struct sdt_connection *connection)
{
	struct sdt_outbox *outbox = &connection->outbox;
	size_t before = outbox->sent;

	if (!sdt_outbox_send(outbox, connection->fd))
		return false;
	if (outbox->fd < 0 && connection->memory.fd >= 0) {
		close(connection->memory.fd); /* the memory stays */
		connection->memory.fd = -1;
	}
	if (outbox->size > 0) {
		if (outbox->sent != before || before == 0)
			connection->deadline = sdt_monotonic() + ANSWER_PATIENCE;
		return true;
	}
	connection->deadline = connection->sink != SDT_NO_SINK ? UINT64_MAX
							       : sdt_monotonic() + REQUEST_PATIENCE;
	return !connection->closing;
}

/*
 * sdt_connection_serve handles the events that poll has returned. It reports false if the
 * connection must be closed. A request waits until the answer to the previous one is sent.
 */
bool sdt_connection_serve(struct sdt_connection *connection, const struct sdt_listener *listener,
			  short events)
{
	if (events == 0)
		return sdt_monotonic() < connection->deadline;
	if (connection->outbox.size > 0) {
		if (!flush_outbox(connection))
			return false;
	} else if (!receive_input(connection))
		return false;
	while (!connection->closing && connection->outbox.size == 0 &&
	       take_request(connection, listener))
		if (!flush_outbox(connection))
			return false;
	return !connection->closing || connection->outbox.size > 0;
}

void sdt_connection_close(struct sdt_connection *connection)
{
	end_watch(connection);
	close(connection->fd);
	sdt_outbox_free(&connection->outbox);
	munmap(connection, sizeof *connection);
}

/* sdt_connections_forget is called in a forked child, which has no connections. */
void sdt_connections_forget(void) { used_memory = 0; }
