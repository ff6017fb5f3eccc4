/*
 * A tracer that has started the program: each load waits until the tracer closes a connection, and for
 * nothing else. The test is the tracer, and its children are programs.
 */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* listen_for opens the socket that the variable names. The providers begin with a comma each. */
static int listen_for(const char *providers, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "/tmp/tracer%d%s", (int)getpid(), providers);
	CHECK(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0);
	CHECK(listen(fd, backlog) == 0);
	CHECK(setenv("STAPSDT_TRACER", address.sun_path, 1) == 0);
	return fd;
}

static int listen_here(int backlog) { return listen_for("", backlog); }

static void stop_listening(int fd)
{
	close(fd);
	unlink(address.sun_path);
	unsetenv("STAPSDT_TRACER");
}

/* count_pending counts the connections that were not accepted. */
static int count_pending(int listener)
{
	struct pollfd polled = {listener, POLLIN, 0};
	int count = 0;

	for (; poll(&polled, 1, 0) > 0; count++)
		close(accept(listener, NULL, NULL));
	return count;
}

/* load_often loads and unloads a provider, and writes a byte after each load. It returns 0. */
static int load_often(int loads, int written)
{
	SDTProvider_t *provider = test_probes("tracer", memfd_enabled, 1);
	int descriptors = test_descriptors();

	for (int i = 0; i < loads; i++) {
		CHECK(providerLoad(provider) == 0);
		CHECK(providerLoad(provider) == 0); /* it is loaded already */
		if (written >= 0)
			CHECK(write(written, "", 1) == 1);
		CHECK(providerUnload(provider) == 0);
		CHECK(test_descriptors() == descriptors);
	}
	providerDestroy(provider);
	return test_failures != 0;
}

enum { LOADS = 20 };

/* start_loads forks a program. */
static pid_t start_loads(int written)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(300);
		_exit(load_often(LOADS, written));
	}
	return child;
}

/* A load ends after the answer, and not before. */
static void answered(void)
{
	int listener = listen_here(4), ends[2], connection;
	struct ucred peer;
	socklen_t size = sizeof peer;
	pid_t child;
	char byte;

	CHECK(pipe(ends) == 0);
	child = start_loads(ends[1]);
	close(ends[1]);
	for (int i = 0; i < LOADS; i++) {
		connection = accept(listener, NULL, NULL);
		CHECK(getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == child);
		CHECK(recv(connection, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
		close(connection);
		CHECK(read(ends[0], &byte, 1) == 1);
	}
	CHECK(read(ends[0], &byte, 1) == 0);
	CHECK(test_wait(child));
	CHECK(count_pending(listener) == 0);
	close(ends[0]);
	stop_listening(listener);
}

static void ignore_signal(int number) { (void)number; }

/* A program waits once for a tracer that does not answer, while signals interrupt it. */
static int wait_in_vain(void)
{
	const struct itimerval often = {{0, 10000}, {0, 10000}};

	signal(SIGALRM, ignore_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	return load_often(LOADS, -1);
}

static void silent(void)
{
	int listener = listen_here(4);

	test_in_child(wait_in_vain, "");
	CHECK(count_pending(listener) == 1);
	stop_listening(listener);
}

/* The end of the tracer lets the program go on. */
static void ended(void)
{
	int listener = listen_here(4), connection;
	pid_t child = start_loads(-1);

	connection = accept(listener, NULL, NULL);
	close(listener);
	close(connection);
	CHECK(test_wait(child));
	unlink(address.sun_path);
	unsetenv("STAPSDT_TRACER");
}

static int load_many(void) { return load_often(LOADS, -1); }

/* A socket that cannot be connected to is no reason to wait, and neither is no socket. */
static void unreachable(void)
{
	int listener = listen_here(0), other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char path[200] = "/";

	CHECK(connect(other, (const struct sockaddr *)&address, sizeof address) == 0);
	test_in_child(load_many, ""); /* there is no room for another connection */
	close(other);
	CHECK(count_pending(listener) == 1);
	memset(path + 1, 'x', sizeof path - 2);
	for (const char *const *value = (const char *const[]){"", "/tmp", "/none", "none", path, NULL}; *value; value++) {
		setenv("STAPSDT_TRACER", *value, 1);
		test_in_child(load_many, "");
	}
	unsetenv("STAPSDT_TRACER");
	test_in_child(load_many, "");
	CHECK(count_pending(listener) == 0);
	stop_listening(listener);
}

static int load_tracer(void)
{
	SDTProvider_t *provider = providerInit("tracer");

	CHECK(providerUseMemfd(provider, memfd_enabled) == 1);
	CHECK(providerLoad(provider) == 0);
	providerDestroy(provider);
	return test_failures != 0;
}

/* A program waits for a tracer that lists its provider, and not for one of others. */
static void listed(void)
{
	const struct {
		const char *providers;
		int waits;
	} cases[] = {
		{",trace", 0}, {",tracers,x", 0}, {",x,racer,,", 0}, {",tracer", 1}, {",x,tracer", 1}, {",tracer,x", 1},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int listener = listen_for(cases[i].providers, 4);

		test_in_child(load_tracer, "");
		CHECK(count_pending(listener) == cases[i].waits);
		stop_listening(listener);
	}
}

static void *load_in_thread(void *unused)
{
	SDTProvider_t *provider = test_probes("cancelled", memfd_enabled, 1);

	(void)unused;
	CHECK(providerLoad(provider) == 0);
	return provider;
}

/* A thread that is cancelled while it waits goes on, and leaves no descriptor open. */
static int cancel_wait(void)
{
	int listener = listen_here(4), connection, descriptors;
	pthread_t thread;
	void *result;

	descriptors = test_descriptors();
	CHECK(pthread_create(&thread, NULL, load_in_thread, NULL) == 0);
	connection = accept(listener, NULL, NULL);
	CHECK(pthread_cancel(thread) == 0);
	close(connection);
	CHECK(pthread_join(thread, &result) == 0 && result != PTHREAD_CANCELED);
	if (result != PTHREAD_CANCELED)
		providerDestroy(result);
	CHECK(test_descriptors() == descriptors);
	stop_listening(listener);
	return test_failures != 0;
}

static void cancelled(void) { test_in_child(cancel_wait, ""); }

static const struct test tests[] = {
	{"answered", answered},
	{"silent", silent},
	{"ended", ended},
	{"unreachable", unreachable},
	{"listed", listed},
	{"cancelled", cancelled},
};

TEST_MAIN("tracer", tests)
