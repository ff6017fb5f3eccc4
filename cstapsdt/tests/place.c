/* Tests of the place of an image: memfds and files to which other code writes. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

static atomic_bool stopped;

/* print_text writes to the numbers of the standard files. */
static void *print_text(void *data)
{
	static const char text[] = "what a program prints\n";

	(void)data;
	while (!stopped)
		for (int fd = 0; fd <= STDERR_FILENO; fd++)
			if (write(fd, text, sizeof text - 1) < 0)
				continue;
	return NULL;
}

/* holds_image reports whether the file holds exactly the image. */
static bool holds_image(SDTProvider_t *provider)
{
	void *image, *mapped;
	struct stat file;
	size_t size = 0;
	bool same;
	int fd = open(provider->_filename, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &file) != 0 || providerImage(provider, &image, &size) != 0)
		return false;
	mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	same = file.st_size == (off_t)size && mapped != MAP_FAILED && memcmp(mapped, image, size) == 0;
	munmap(mapped, size);
	free(image);
	return same;
}

static int load_while_printing(MemFDOption_t place, int loads)
{
	SDTProvider_t *provider = test_probes("prints", place, 3);
	pthread_t thread;
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100), failed = 0;

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	stopped = false;
	CHECK(pthread_create(&thread, NULL, print_text, NULL) == 0);
	for (int i = 0; i < loads; i++) {
		if (providerLoad(provider) != 0 || !holds_image(provider))
			failed++;
		probeFire(&provider->probes->probe, (uint64_t)1, (uint64_t)2);
		if (providerUnload(provider) != 0)
			failed++;
	}
	stopped = true;
	pthread_join(thread, NULL);
	dup2(out, STDOUT_FILENO);
	close(out);
	CHECK(failed == 0);
	if (failed)
		printf("# %d of %d loads failed\n", failed, loads);
	providerDestroy(provider);
	return test_failures != 0;
}

static int prints_into_memory(void) { return load_while_printing(memfd_enabled, test_rounds(3000)); }
static int prints_into_a_file(void) { return load_while_printing(memfd_disabled, test_rounds(1000)); }
static void printed_memory(void) { test_in_child(prints_into_memory, ""); }
static void printed_file(void) { test_in_child(prints_into_a_file, ""); }

/* No code can write to the memfd, not even the program itself after it has closed too much. */
static void sealed(void)
{
	SDTProvider_t *provider = test_probes("sealed", memfd_enabled, 3);
	int seals;

	CHECK(providerLoad(provider) == 0);
	seals = fcntl(provider->_memfd, F_GET_SEALS);
	CHECK(seals == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL));
	CHECK(pwrite(provider->_memfd, "x", 1, 0) == -1 && errno == EPERM);
	CHECK(holds_image(provider));
	providerDestroy(provider);
}

/* The library calls these pwrite and pread, which can corrupt, interrupt and shorten a transfer. */
static int corrupted, interrupted, parts;

/* call_is_interrupted reports whether this call fails with EINTR. */
static bool call_is_interrupted(void)
{
	errno = EINTR;
	return interrupted > 0 && interrupted-- > 0;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
	unsigned char *copy;
	ssize_t written;

	if (call_is_interrupted())
		return -1;
	if (parts && size > 100)
		size = 100;
	copy = malloc(size);
	memcpy(copy, bytes, size);
	if (corrupted > 0) /* another byte of each image: the first, the middle, the last */
		copy[(size_t)(3 - corrupted--) * (size - 1) / 2] ^= 1;
	written = pwritev(fd, &(struct iovec){copy, size}, 1, at);
	free(copy);
	return written;
}

ssize_t pread(int fd, void *bytes, size_t size, off_t at)
{
	if (call_is_interrupted())
		return -1;
	return preadv(fd, &(struct iovec){bytes, parts && size > 100 ? 100 : size}, 1, at);
}

static void other_bytes(void)
{
	for (int place = memfd_disabled; place <= memfd_enabled; place++) {
		SDTProvider_t *provider = test_probes("other", (MemFDOption_t)place, 3);

		corrupted = 3;
		CHECK(providerLoad(provider) == -1);
		CHECK_ERROR(provider, tmpCreationError, "other code writes to the file or memfd of the image");
		CHECK(corrupted == 0 && test_files() == 0);
		corrupted = 2;
		CHECK(providerLoad(provider) == 0 && holds_image(provider));
		providerDestroy(provider);
	}
}

static void part_by_part(void)
{
	for (int place = memfd_disabled; place <= memfd_enabled; place++) {
		SDTProvider_t *provider = test_probes("parts", (MemFDOption_t)place, 3);

		parts = 1;
		CHECK(providerLoad(provider) == 0 && holds_image(provider));
		CHECK(providerUnload(provider) == 0);
		parts = 0;
		for (interrupted = 1; interrupted < 4; interrupted++) {
			int before = interrupted;

			CHECK(providerLoad(provider) == 0 && holds_image(provider));
			CHECK(interrupted == 0 && providerUnload(provider) == 0);
			interrupted = before;
		}
		interrupted = 0;
		providerDestroy(provider);
	}
}

static const struct test tests[] = {
	{"prints into a memfd", printed_memory},
	{"prints into a file", printed_file},
	{"a memfd is sealed", sealed},
	{"other bytes than were written", other_bytes},
	{"part by part, and interrupted", part_by_part},
};

TEST_MAIN("place", tests)
