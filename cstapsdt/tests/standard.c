/*
 * Tests of a program that has closed its standard files: what it prints all the same is in no recording, and reaches
 * no tracer. Those of images are in place.c.
 */
#include "../private.h"
#include "test.h"

#include "recording.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char directory[] = "/dev/shm/sdtstandard-XXXXXX";
static char path[64];

static atomic_bool stopped;
static atomic_ulong *printed; /* how often the program has printed to all three, in shared memory */

static void print_once(void)
{
	static const char text[] = "what a program prints\n";

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (write(fd, text, sizeof text - 1) < 0)
			continue;
	atomic_fetch_add(printed, 1);
}

static void *print_always(void *unused)
{
	while (!atomic_load(&stopped))
		print_once();
	return unused;
}

/* close_standard closes the standard files, and returns a copy of the output, in which the test reports. */
static int close_standard(void)
{
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100);

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	return out;
}

static int report(int out)
{
	dup2(out, STDOUT_FILENO);
	close(out);
	return test_failures != 0;
}

static bool are_closed(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
			return false;
	return true;
}

/* Another thread prints before, while and after each recording begins. */
static int record_while_printing(void)
{
	int out = close_standard();
	struct recording r;
	pthread_t thread;

	rec_load("standard");
	CHECK(pthread_create(&thread, NULL, print_always, NULL) == 0);
	for (int i = 0; i < test_rounds(300); i++) {
		rec_begin(path, 1);
		fire_times(10);
		rec_stop(&r, path);
		CHECK(r.seen == 10 && rec_total(&r) == 10);
		rec_free(&r);
	}
	atomic_store(&stopped, true);
	pthread_join(thread, NULL);
	CHECK(are_closed());
	providerDestroy(provider);
	return report(out);
}

/* A forked child makes its file when it fires. */
static int record_in_a_child(void)
{
	int out = close_standard();
	char file[96];
	pid_t child;

	rec_load("standard");
	rec_begin(path, 1);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 10; i++) {
			fire_times(1);
			print_once();
		}
		providerDestroy(provider);
		_exit(!are_closed());
	}
	CHECK(test_wait(child));
	sdtStopRecording();
	snprintf(file, sizeof file, "%s.%d", path, (int)child);
	rec_expect(file, child, 10);
	rec_expect(path, getpid(), 0);
	providerDestroy(provider);
	return report(out);
}

/* The program waits for the tracer while another thread prints. */
static int load_while_printing(void)
{
	int out = close_standard(), status;
	pthread_t thread;

	alarm(0); /* the test is the tracer, which answers */
	CHECK(pthread_create(&thread, NULL, print_always, NULL) == 0);
	rec_load("standard");
	atomic_store(&stopped, true);
	pthread_join(thread, NULL);
	CHECK(are_closed());
	providerDestroy(provider);
	status = report(out);
	fflush(stdout);
	return status;
}

/* A descriptor that gets a standard number, because another thread closes that file after it was occupied, is moved. */
static int move_descriptor(void)
{
	struct sdt_standard standard;
	struct stat file, moved;
	int out = close_standard(), fd;

	sdt_standard_occupy(&standard);
	CHECK(standard.count == 3 && !are_closed());
	CHECK(write(STDOUT_FILENO, "", 1) == -1 && errno == EBADF);
	close(STDOUT_FILENO);
	CHECK(stat(directory, &file) == 0 && open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) == STDOUT_FILENO);
	errno = ENOTTY;
	fd = sdt_standard_release(&standard, STDOUT_FILENO);
	CHECK(errno == ENOTTY && fd > STDERR_FILENO && are_closed());
	CHECK(fstat(fd, &moved) == 0 && moved.st_dev == file.st_dev && moved.st_ino == file.st_ino);
	CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	close(fd);

	/* Files that the program opens at their numbers stay. */
	sdt_standard_occupy(&standard);
	CHECK(dup2(out, STDERR_FILENO) == STDERR_FILENO);
	errno = ENOTTY;
	CHECK(sdt_standard_release(&standard, -1) == -1 && errno == ENOTTY);
	CHECK(fcntl(STDERR_FILENO, F_GETFD) == 0 && close(STDERR_FILENO) == 0 && are_closed());
	return report(out);
}

static void moved(void) { test_in_child(move_descriptor, ""); }
static void in_a_recording(void) { test_in_child(record_while_printing, ""); }
static void of_a_child(void) { test_in_child(record_in_a_child, ""); }

static void to_a_tracer(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), connection;
	unsigned long before;
	pid_t child;
	char byte;

	snprintf(address.sun_path, sizeof address.sun_path, "%.40s/tracer", directory);
	CHECK(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
	CHECK(setenv("STAPSDT_TRACER", address.sun_path, 1) == 0);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(load_while_printing());
	connection = accept(listener, NULL, NULL);
	before = atomic_load(printed);
	/* One of these has begun after the connection. */
	for (int tries = 0; tries < 10000 && atomic_load(printed) < before + 2; tries++)
		usleep(100);
	CHECK(recv(connection, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	close(connection);
	CHECK(test_wait(child));
	close(listener);
	CHECK(unsetenv("STAPSDT_TRACER") == 0 && unlink(address.sun_path) == 0);
}

static const struct test tests[] = {
	{"a descriptor that is moved", moved},
	{"in a recording", in_a_recording},
	{"in the recording of a child", of_a_child},
	{"to a tracer", to_a_tracer},
};

int main(void)
{
	printed = mmap(NULL, sizeof *printed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (printed == MAP_FAILED)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	return rec_main("standard", tests, sizeof tests / sizeof tests[0], directory, path);
}
