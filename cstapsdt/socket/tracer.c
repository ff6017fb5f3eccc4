/* The tracer that has started the program, and attaches to the probes that this has loaded. */
#include "socket.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE UINT64_C(1000000000) /* nanoseconds */

/* Whether the tracer has failed to answer. */
static bool silent;

/* is_answered waits for the end of a connection, and reports whether it came in time. */
static bool is_answered(int fd)
{
	struct pollfd polled = {fd, POLLIN, 0};
	uint64_t now = sdt_monotonic(), end = now + PATIENCE;
	int ready;

	do {
		ready = poll(&polled, 1, (int)((end - now) / 1000000));
		now = sdt_monotonic();
	} while (ready < 0 && errno == EINTR && now < end);
	return ready > 0;
}

/* call_tracer connects to the tracer's socket, and waits until the tracer closes the connection. */
static void call_tracer(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = -1;

	if (strlen(path) < sizeof address.sun_path)
		fd = sdt_place_socket();
	if (fd < 0)
		return;
	strcpy(address.sun_path, path);
	if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 && !is_answered(fd))
		__atomic_store_n(&silent, true, __ATOMIC_RELAXED);
	close(fd);
}

/* is_asked reports whether the name of the socket lists no providers, or this one. */
static bool is_asked(const char *path, const char *provider)
{
	const char *slash = strrchr(path, '/'), *comma = strchr(slash ? slash : path, ',');
	size_t length = strlen(provider);

	if (!comma)
		return true;
	for (; comma; comma = strchr(comma + 1, ','))
		if (strncmp(comma + 1, provider, length) == 0 &&
			(comma[1 + length] == ',' || comma[1 + length] == 0))
			return true;
	return false;
}

/*
 * sdt_tracer_await waits until the tracer has attached to the probes of a provider that the program
 * has loaded, for at most PATIENCE. It returns at once if no tracer has started the program, if the
 * tracer selects no probe of this provider, if it has ended, or if it failed to answer before.
 * Package tracer does the same.
 */
void sdt_tracer_await(const char *provider)
{
	const char *path = secure_getenv("STAPSDT_TRACER");
	int cancel;

	if (!path || !*path || __atomic_load_n(&silent, __ATOMIC_RELAXED) || !is_asked(path, provider))
		return;
	cancel = sdt_cancel_hold();
	call_tracer(path);
	sdt_cancel_release(cancel);
}
