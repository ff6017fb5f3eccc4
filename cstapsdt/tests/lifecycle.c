/* Tests of loading and unloading, in memory and in a file. */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const MemFDOption_t places[] = {memfd_enabled, memfd_disabled};

/* sites_are_named asks the loader for the symbol of each site. */
static bool sites_are_named(SDTProvider_t *provider)
{
	for (SDTProbeList_t *list = provider->probes; list; list = list->next) {
		Dl_info info;

		if (!dladdr(list->probe._fire, &info) || !info.dli_sname ||
		    strcmp(info.dli_sname, list->probe.name) != 0 ||
		    info.dli_saddr != list->probe._fire)
			return false;
	}
	return true;
}

static void fire_all(SDTProvider_t *provider)
{
	for (SDTProbeList_t *list = provider->probes; list; list = list->next) {
		CHECK(probeIsEnabled(&list->probe) == 0);
		probeFire(&list->probe, (uint64_t)1, (uint64_t)2);
		probeFireV(&list->probe, (uint64_t[]){1, 2});
	}
}

static void cycle(MemFDOption_t place)
{
	SDTProvider_t *provider = test_probes("cycle", place, 2);
	SDTProbe_t *first = &provider->probes->probe;

	CHECK(first->_fire == NULL && probeOffset(first) == -1);
	fire_all(provider);
	for (int i = 0; i < 3; i++) {
		char *path;

		CHECK(providerLoad(provider) == 0);
		CHECK_ERROR(provider, noError, "");
		CHECK(first->_fire != NULL && provider->_handle && provider->_filename);
		CHECK((provider->_memfd >= 0) == (place == memfd_enabled));
		CHECK(provider->_memfd < 0 || fcntl(provider->_memfd, F_GETFD) == FD_CLOEXEC);
		CHECK(access(provider->_filename, R_OK) == 0);
		CHECK(sites_are_named(provider));
		fire_all(provider);
		path = strdup(provider->_filename);
		CHECK(providerUnload(provider) == 0);
		CHECK(access(path, F_OK) != 0);
		free(path);
		CHECK(first->_fire == NULL && !provider->_handle && !provider->_filename);
		CHECK(provider->_memfd == -1);
		fire_all(provider);
		CHECK(providerAddProbe(provider, "another", 1, uint8) != NULL);
	}
	providerDestroy(provider);
}

static void cycles(void)
{
	for (int i = 0; i < 2; i++)
		cycle(places[i]);
}

static void file(void)
{
	SDTProvider_t *provider = test_probes("file", memfd_disabled, 2);
	char pattern[64];
	struct stat status;

	CHECK(providerLoad(provider) == 0);
	snprintf(pattern, sizeof pattern, "/tmp/sdttest%d-file-", (int)getpid());
	CHECK(strncmp(provider->_filename, pattern, strlen(pattern)) == 0);
	CHECK(strlen(provider->_filename) == strlen(pattern) + 9);
	CHECK(strcmp(provider->_filename + strlen(pattern) + 6, ".so") == 0);
	CHECK(stat(provider->_filename, &status) == 0 && (status.st_mode & 07777) == 01600);
	CHECK(providerUnload(provider) == 0);

	CHECK(providerLoad(provider) == 0);
	CHECK(unlink(provider->_filename) == 0);
	CHECK(providerUnload(provider) == 0); /* no error, as if /tmp had been cleaned */
	providerDestroy(provider);
}

/* Ruby's wrapper overwrites the name of the file before it unloads; others could do so too. */
static void overwritten(void)
{
	void *const values[] = {NULL, (void *)(uintptr_t)8};

	for (int i = 0; i < 8; i++) {
		SDTProvider_t *provider = test_probes("overwritten", places[i & 1], 2);
		void *value = values[i >> 1 & 1];
		char *path;

		CHECK(providerLoad(provider) == 0);
		path = strdup(provider->_filename);
		provider->_filename = value;
		if (i & 4) {
			provider->_handle = value;
			provider->_memfd = value ? 12345 : -1;
			provider->_use_memfd = places[!(i & 1)];
		}
		CHECK(!providerAddProbe(provider, "late", 0));
		CHECK(providerUnload(provider) == 0);
		CHECK(!provider->_filename && !provider->_handle && provider->_memfd == -1);
		CHECK(access(path, F_OK) != 0);
		free(path);
		CHECK(providerLoad(provider) == 0 && provider->_filename);
		provider->_filename = value;
		providerDestroy(provider);
	}
}

static void closed_by_another(void)
{
	for (int i = 0; i < 2; i++) {
		SDTProvider_t *provider = test_probes("closed", places[i], 2);

		CHECK(providerLoad(provider) == 0);
		CHECK(dlclose(provider->_handle) == 0);
		CHECK(providerUnload(provider) == -1);
		CHECK_ERROR(provider, sharedLibraryCloseError, "its handle was already closed");
		CHECK(!provider->_handle && provider->_memfd == -1);
		CHECK(providerLoad(provider) == 0); /* it can be used again */
		CHECK(dlclose(provider->_handle) == 0);
		providerDestroy(provider);
	}
}

static void bad_names(void)
{
	char name[300] = {0};
	SDTProvider_t *provider;

	for (int i = 0; i < 2; i++) {
		provider = providerInit("a/b");
		CHECK(providerAddProbe(provider, "probe", 0) != NULL);
		providerUseMemfd(provider, places[i]);
		CHECK(providerLoad(provider) == -1);
		CHECK_ERROR(provider, tmpCreationError, "load a/b: the name has a slash");
		CHECK(!provider->_handle && !provider->_filename && provider->_memfd == -1);
		providerDestroy(provider);
	}
	provider = test_probes("a$LIB", memfd_disabled, 2);
	CHECK(providerLoad(provider) == -1);
	CHECK_ERROR(provider, tmpCreationError, "the name has a dollar sign, which dlopen would expand");
	CHECK(providerUseMemfd(provider, memfd_enabled) == 1);
	CHECK(providerLoad(provider) == 0);
	providerDestroy(provider);
	memset(name, 'n', 249);
	provider = providerInit(name);
	CHECK(providerLoad(provider) == 0);
	providerDestroy(provider);
	name[249] = 'n';
	provider = providerInit(name);
	CHECK(providerLoad(provider) == -1);
	CHECK_ERROR(provider, tmpCreationError, "the name is longer than the 249 bytes of a memfd's name");
	memset(name, 'n', 299);
	providerDestroy(provider);
	provider = providerInit(name);
	providerUseMemfd(provider, memfd_disabled);
	CHECK(providerLoad(provider) == -1);
	CHECK_ERROR(provider, tmpCreationError, "name too long");
	providerDestroy(provider);
}

static void no_probes(void)
{
	for (int i = 0; i < 2; i++) {
		SDTProvider_t *provider = test_provider("empty");

		providerUseMemfd(provider, places[i]);
		CHECK(providerLoad(provider) == 0);
		CHECK(providerUnload(provider) == 0);
		providerDestroy(provider);
	}
}

/* The loader knows /proc/PID/fd/N, although another file has that descriptor now. */
static void number_taken(void)
{
	SDTProvider_t *other = test_probes("other", memfd_enabled, 2);
	SDTProvider_t *provider = test_provider("taken");
	void *held[2];

	CHECK(providerAddProbe(provider, "mine", 2, uint64, int32) != NULL);
	CHECK(providerAddProbe(provider, "other", 0) != NULL);

	for (int i = 0; i < 2; i++) {
		CHECK(providerLoad(other) == 0);
		held[i] = dlopen(other->_filename, RTLD_NOW);
		CHECK(held[i] != NULL);
		CHECK(providerUnload(other) == 0);
		CHECK(providerAddProbe(other, "different", 0) != NULL);
	}
	CHECK(providerLoad(provider) == 0);
	CHECK(sites_are_named(provider));
	CHECK(providerUnload(provider) == 0);
	for (int i = 0; i < 2; i++)
		dlclose(held[i]);
	providerDestroy(provider);
	providerDestroy(other);
}

static void image(void)
{
	SDTProvider_t *provider = test_probes("image", memfd_enabled, 2);
	SDTProbe_t *first = &provider->probes->probe, *third;
	void *before, *after, *mapped;
	size_t size, again;
	int fd;

	CHECK(providerImage(provider, &before, &size) == 0);
	CHECK(probeOffset(first) > 0);
	CHECK(providerLoad(provider) == 0);
	CHECK(memcmp((char *)before + probeOffset(first), first->_fire, 16) == 0);
	CHECK(providerImage(provider, &after, &again) == 0);
	CHECK(size == again && memcmp(before, after, size) == 0);
	fd = open(provider->_filename, O_RDONLY);
	mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(mapped != MAP_FAILED && memcmp(mapped, before, size) == 0);
	CHECK(lseek(fd, 0, SEEK_END) == (off_t)size);
	munmap(mapped, size);
	close(fd);
	CHECK(providerUnload(provider) == 0);
	third = providerAddProbe(provider, "third", 0);
	CHECK(probeOffset(first) > 0 && probeOffset(third) == -1);
	free(after);
	CHECK(providerImage(provider, &after, &again) == 0);
	CHECK(again > size && probeOffset(third) == probeOffset(first) + 32);
	free(before);
	free(after);
	providerDestroy(provider);
}

/* If other code has closed the memfd, and another file has its number, we must not close it. */
static void number_reused(void)
{
	SDTProvider_t *provider = test_probes("reused", memfd_enabled, 2);
	int other;

	CHECK(providerLoad(provider) == 0);
	other = open("/dev/null", O_RDONLY);
	CHECK(dup2(other, provider->_memfd) == provider->_memfd);
	close(other);
	other = provider->_memfd;
	CHECK(providerUnload(provider) == 0);
	CHECK(fcntl(other, F_GETFD) != -1);
	close(other);
	CHECK(providerLoad(provider) == 0);
	providerDestroy(provider);
}

static int load_without_standard_files(void)
{
	SDTProvider_t *provider = test_probes("closed", memfd_enabled, 2);

	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	CHECK(providerLoad(provider) == 0);
	CHECK(provider->_memfd > STDERR_FILENO);
	CHECK(fcntl(provider->_memfd, F_GETFD) == FD_CLOEXEC);
	CHECK(write(STDOUT_FILENO, "", 1) == -1 && errno == EBADF);
	fire_all(provider);
	providerDestroy(provider);
	return test_failures != 0;
}

/* A program that has closed stdin, stdout and stderr must not print into a memfd. */
static void standard_closed(void) { test_in_child(load_without_standard_files, ""); }

static const struct test tests[] = {
	{"load, fire, unload, again", cycles},
	{"the file in /tmp", file},
	{"members that a wrapper overwrites", overwritten},
	{"a handle closed by another", closed_by_another},
	{"bad names", bad_names},
	{"a provider without probes", no_probes},
	{"a descriptor's number that the loader knows", number_taken},
	{"the image as bytes, and offsets", image},
	{"a memfd's number that another file has", number_reused},
	{"without stdin, stdout and stderr", standard_closed},
};

TEST_MAIN("lifecycle", tests)
