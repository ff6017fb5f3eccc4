#include "private.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel's limit is 255 with its own prefix "memfd:". */
#define MEMFD_NAME_MAX 249
#define MFD_EXECUTABLE 0x10 /* MFD_EXEC, since 6.3: glibc of 2023 has it */

static char *join(const char *before, const char *name, const char *after)
{
	size_t size = strlen(before) + strlen(name), tail = strlen(after) + 1;
	char *out;

	if (__builtin_add_overflow(size, tail, &size))
		return NULL;
	out = malloc(size);
	if (out)
		snprintf(out, size, "%s%s%s", before, name, after);
	return out;
}

/* The place a loaded image has: a file, or a memfd. */
struct place {
	int fd;
	char *path; /* that opens it */
	bool memory;
};

static int no_memory(SDTProvider_t *provider)
{
	return sdt_fail(provider, tmpCreationError, "load %s: out of memory", provider->name);
}

/*
 * descriptor_path is /proc/PID/fd/N. A debugger opens what the loader opened:
 * /proc/self would be the debugger there, whose descriptor N may be a pipe that
 * it reads forever. The link says which PID that is in this mount of /proc,
 * where getpid's may be another's or nobody's.
 */
static char *descriptor_path(int fd)
{
	char self[16], path[48];
	ssize_t size = readlink("/proc/self", self, sizeof self - 1);

	if (size <= 0)
		size = snprintf(self, sizeof self, "self");
	self[size] = '\0';
	snprintf(path, sizeof path, "/proc/%s/fd/%d", self, fd);
	return join(path, "", "");
}

/* above_standard moves a descriptor to where nobody prints to who has closed stdout. */
static int above_standard(int fd)
{
	int higher;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return higher;
}

static int open_memory(SDTProvider_t *provider, struct place *place)
{
	if (strlen(provider->name) > MEMFD_NAME_MAX)
		return sdt_fail(provider, tmpCreationError,
				"load %s: the name is longer than a memfd's %d bytes",
				provider->name, MEMFD_NAME_MAX);
	place->fd = memfd_create(provider->name, MFD_CLOEXEC | MFD_EXECUTABLE);
	if (place->fd < 0 && errno == EINVAL)
		place->fd = memfd_create(provider->name, MFD_CLOEXEC);
	place->fd = above_standard(place->fd);
	if (place->fd < 0)
		return sdt_fail(provider, tmpCreationError, "load %s: create a memfd: %m",
				provider->name);
	place->path = descriptor_path(place->fd);
	if (!place->path) {
		close(place->fd);
		return no_memory(provider);
	}
	return 0;
}

/* renumber moves the memfd to a higher descriptor, whose path is another. */
static bool renumber(struct place *place)
{
	int fd = fcntl(place->fd, F_DUPFD_CLOEXEC, place->fd + 1);
	char *path = fd < 0 ? NULL : descriptor_path(fd);

	if (!path) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	close(place->fd);
	free(place->path);
	place->fd = fd;
	place->path = path;
	return true;
}

static int open_file(SDTProvider_t *provider, struct place *place)
{
	place->path = join("/tmp/", provider->name, "-XXXXXX.so");
	if (!place->path)
		return no_memory(provider);
	place->fd = mkostemps(place->path, 3, O_CLOEXEC);
	if (place->fd >= 0)
		return 0;
	sdt_fail(provider, tmpCreationError, "load %s: create /tmp/%s-XXXXXX.so: %m",
		 provider->name, provider->name);
	free(place->path);
	return -1;
}

/* A process whose limit (ulimit -f) is lower is ended by a signal when it writes. */
static bool may_write(size_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	    size <= limit.rlim_cur)
		return true;
	errno = EFBIG;
	return false;
}

static bool write_all(int fd, const unsigned char *bytes, size_t size)
{
	if (!may_write(size))
		return false;
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

static const char *why(void)
{
	const char *text = dlerror();

	return text ? text : "no reason given";
}

/* is_image reports whether what the loader answered with is the image. */
static bool is_image(const struct link_map *map, const struct sdt_image *image)
{
	uint64_t id = image->offset[SDT_BUILD_ID];

	return (uintptr_t)map->l_ld == map->l_addr + image->addr[SDT_DYNAMIC] &&
	       memcmp((const char *)map->l_addr + id, image->bytes + id,
		      SDT_ID_OFFSET + SDT_ID_SIZE) == 0;
}

/*
 * open_library returns the handle and sets the provider's base. The loader
 * knows a library by its path: somebody may have loaded another from a
 * descriptor that had our number, and closed that. Then we take another number.
 */
static void *open_library(struct sdt_provider *provider, const struct sdt_image *image,
			  struct place *place)
{
	SDTProvider_t *api = &provider->api;
	struct link_map *map;
	void *handle;

	for (int tries = 0; tries < 100; tries++) {
		handle = dlopen(place->path, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			sdt_fail(api, sharedLibraryOpenError, "load %s: %s", api->name, why());
			return NULL;
		}
		if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
			sdt_fail(api, symbolLoadingError, "load %s: %s", api->name, why());
			dlclose(handle);
			return NULL;
		}
		if (is_image(map, image)) {
			provider->base = map->l_addr;
			return handle;
		}
		dlclose(handle);
		if (!place->memory || !renumber(place))
			break;
	}
	sdt_fail(api, symbolLoadingError, "load %s: another library is loaded as %s", api->name,
		 place->path);
	return NULL;
}

static void publish(struct sdt_provider *provider, uintptr_t site)
{
	for (SDTProbeList_t *p = provider->api.probes; p; p = p->next) {
		__atomic_store_n(&p->probe._fire, (void *)site, __ATOMIC_RELEASE);
		if (site)
			site += SDT_SLOT;
	}
}

static int load(struct sdt_provider *provider, const struct sdt_image *image)
{
	SDTProvider_t *api = &provider->api;
	struct place place = {.memory = api->_use_memfd == memfd_enabled};
	struct stat file;
	void *handle;

	if ((place.memory ? open_memory : open_file)(api, &place) != 0)
		return -1;
	if (fstat(place.fd, &file) != 0 || !write_all(place.fd, image->bytes, image->size)) {
		sdt_fail(api, tmpCreationError, "load %s: write %s: %m", api->name, place.path);
		goto fail;
	}
	handle = open_library(provider, image, &place);
	if (!handle)
		goto fail;
	if (!place.memory) {
		close(place.fd);
		place.fd = -1;
	}
	provider->owner = (struct sdt_owner){.dev = file.st_dev, .ino = file.st_ino};
	if (!place.memory)
		provider->owner.loader = sdt_this_process();
	api->_handle = handle;
	api->_filename = place.path;
	api->_memfd = place.fd;
	publish(provider, provider->base + (uintptr_t)image->offset[SDT_TEXT]);
	return 0;
fail:
	if (!place.memory)
		unlink(place.path);
	close(place.fd);
	free(place.path);
	return -1;
}

int providerLoad(SDTProvider_t *provider)
{
	struct sdt_image image;
	int status;

	if (!provider)
		return -1;
	sdt_clear(provider);
	if (provider->_handle)
		return sdt_fail(provider, sharedLibraryOpenError, "load %s: it is loaded",
				provider->name);
	if (strchr(provider->name, '/'))
		return sdt_fail(provider, tmpCreationError, "load %s: the name has a slash",
				provider->name);
	/* dlopen would put its own words for $LIB, $ORIGIN and $PLATFORM. */
	if (provider->_use_memfd != memfd_enabled && strchr(provider->name, '$'))
		return sdt_fail(provider, tmpCreationError,
				"load %s: the name has a dollar sign, which no file's may",
				provider->name);
	if (sdt_image_host(sdt_provider(provider), &image) != 0)
		return -1;
	status = load(sdt_provider(provider), &image);
	free(image.bytes);
	return status;
}

static int is_ours(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct sdt_provider *provider = data;

	(void)size;
	return info->dlpi_addr == provider->base && info->dlpi_name &&
	       strcmp(info->dlpi_name, provider->api._filename) == 0;
}

/*
 * close_memory closes the memfd. Who closed it already, as a daemon that closes
 * all it knows, may have another file under its number.
 */
static void close_memory(const struct sdt_provider *provider)
{
	struct stat file;

	if (fstat(provider->api._memfd, &file) == 0 && file.st_dev == provider->owner.dev &&
	    file.st_ino == provider->owner.ino)
		close(provider->api._memfd);
}

/*
 * remove_file leaves the file to the process that loaded it, where that is
 * another and may live: we are its child, and tracers find its probes by that name.
 */
static bool remove_file(const struct sdt_provider *provider)
{
	if (sdt_is_elsewhere(&provider->owner.loader))
		return true;
	return unlink(provider->api._filename) == 0 || errno == ENOENT;
}

int providerUnload(SDTProvider_t *provider)
{
	int status = 0;

	if (!provider)
		return -1;
	sdt_clear(provider);
	if (!provider->_handle)
		return sdt_fail(provider, sharedLibraryCloseError, "unload %s: it is not loaded",
				provider->name);
	publish(sdt_provider(provider), 0);
	/* A handle that somebody else closed points to freed memory. */
	if (!dl_iterate_phdr(is_ours, sdt_provider(provider)))
		status = sdt_fail(provider, sharedLibraryCloseError,
				  "unload %s: its handle was closed already", provider->name);
	else if (dlclose(provider->_handle) != 0)
		status = sdt_fail(provider, sharedLibraryCloseError, "unload %s: %s",
				  provider->name, why());
	if (provider->_memfd >= 0)
		close_memory(sdt_provider(provider));
	else if (!remove_file(sdt_provider(provider)) && status == 0)
		status = sdt_fail(provider, sharedLibraryCloseError, "unload %s: remove %s: %m",
				  provider->name, provider->_filename);
	free(provider->_filename);
	provider->_handle = NULL;
	provider->_filename = NULL;
	provider->_memfd = -1;
	return status;
}
