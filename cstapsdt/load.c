/* Loading an image into the process, and unloading it. */
#include "private.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *loader_error(void)
{
	const char *text = dlerror();

	return text ? text : "no reason given";
}

/* is_image reports whether the library that the loader returned is the image. */
static bool is_image(const struct link_map *map, const struct sdt_image *image)
{
	uint64_t id = image->offset[SDT_BUILD_ID];

	return (uintptr_t)map->l_ld == map->l_addr + image->addr[SDT_DYNAMIC] &&
	       memcmp((const char *)map->l_addr + id, image->bytes + id,
		      SDT_ID_OFFSET + SDT_ID_SIZE) == 0;
}

/*
 * OPEN_TRIES is the maximum number of descriptors with a path that the loader already
 * knows.
 */
enum { OPEN_TRIES = 100 };

/*
 * open_library returns the handle and sets the provider's base. The loader knows a
 * library by its path. If other code has loaded another library from a descriptor
 * that had the number of ours, and has closed it, the loader returns that library;
 * then we take another number.
 */
static void *open_library(struct sdt_provider *provider, const struct sdt_image *image,
			  struct sdt_home *home)
{
	SDTProvider_t *api = &provider->api;
	struct link_map *map;
	void *handle;

	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		handle = dlopen(home->path, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			sdt_fail(api, sharedLibraryOpenError, "load %s: %s", api->name,
				 loader_error());
			return NULL;
		}
		if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
			sdt_fail(api, symbolLoadingError, "load %s: %s", api->name, loader_error());
			dlclose(handle);
			return NULL;
		}
		if (is_image(map, image)) {
			provider->base = map->l_addr;
			return handle;
		}
		dlclose(handle);
		if (!home->in_memory || !sdt_home_renumber(home))
			break;
	}
	sdt_fail(api, symbolLoadingError, "load %s: another library is loaded as %s", api->name,
		 home->path);
	return NULL;
}

#ifdef SDT_IN_GO
/*
 * Package stapsdt loads its images itself, and records. But other C code of the program may use
 * these functions too.
 */
int sdt_observe_load(struct sdt_provider *provider, uintptr_t sites)
{
	for (SDTProbeList_t *p = provider->api.probes; p; p = p->next, sites += SDT_SLOT)
		__atomic_store_n(&p->probe._fire, (void *)sites, __ATOMIC_RELEASE);
	return 0;
}

void sdt_observe_unload(struct sdt_provider *provider)
{
	for (SDTProbeList_t *p = provider->api.probes; p; p = p->next)
		__atomic_store_n(&p->probe._fire, NULL, __ATOMIC_RELEASE);
}

void sdt_program_prepare(void) {}

void sdt_tracer_await(const char *provider) { (void)provider; }
#endif

/* show_members copies the state of the provider to the public members that wrappers read. */
static void show_members(struct sdt_provider *provider)
{
	provider->api._handle = provider->handle;
	provider->api._filename = provider->home.path;
	provider->api._memfd = provider->home.fd;
}

static int is_our_library(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct sdt_provider *provider = data;

	(void)size;
	return info->dlpi_addr == provider->base && info->dlpi_name &&
	       strcmp(info->dlpi_name, provider->home.path) == 0;
}

/*
 * remove_file does not remove the file if another process has loaded it and may still
 * be alive: we are a child of that process, and tracers find its probes by the file.
 */
static bool remove_file(const struct sdt_provider *provider)
{
	if (sdt_is_elsewhere(&provider->loader))
		return true;
	return unlink(provider->home.path) == 0 || errno == ENOENT;
}

/*
 * unload_provider reads private members only, because wrappers may have set the
 * public ones to NULL.
 */
static int unload_provider(struct sdt_provider *provider)
{
	SDTProvider_t *api = &provider->api;
	int status = 0;

	sdt_observe_unload(provider);
	sdt_fork_release(provider->fork_mapping);
	provider->fork_mapping = NULL;
	/* If other code has closed the handle, it points to freed memory. */
	if (!dl_iterate_phdr(is_our_library, provider))
		status = sdt_fail(api, sharedLibraryCloseError,
				  "unload %s: its handle was already closed", provider->name);
	else if (dlclose(provider->handle) != 0)
		status = sdt_fail(api, sharedLibraryCloseError, "unload %s: %s", provider->name,
				  loader_error());
	/*
	 * If the program has closed the memfd, as a daemon that closes all descriptors does, another
	 * file may have its number.
	 */
	if (sdt_file_is(provider->home.fd, provider->home.dev, provider->home.ino))
		close(provider->home.fd);
	if (!provider->home.in_memory && !remove_file(provider) && status == 0)
		status = sdt_fail(api, sharedLibraryCloseError, "unload %s: remove %s: %m",
				  provider->name, provider->home.path);
	free(provider->home.path);
	provider->handle = NULL;
	provider->home = (struct sdt_home){.fd = -1};
	show_members(provider);
	return status;
}

/*
 * guard_forks makes forked children repair the sites, if the kernel turns their nop into
 * a call. It must be called before any probe has an address.
 */
static int guard_forks(struct sdt_provider *provider, const struct sdt_image *image)
{
	const struct sdt_home *home = &provider->home;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t end = image->offset[SDT_BASE] + 1; /* of the executable mapping */
	struct sdt_mapping mapping = {
		.start = (void *)provider->base,
		.size = (end + page - 1) & -page,
		.dev = home->dev,
		.ino = home->ino,
		.memfd = home->in_memory ? home->fd : -1,
	};

	if (image->nop == sdt_nop_find(image->arch->name, NULL))
		return 0;
	provider->fork_mapping = sdt_fork_guard(&mapping, home->path);
	return provider->fork_mapping ? 0 : -1;
}

static int load_image(struct sdt_provider *provider, const struct sdt_image *image)
{
	struct sdt_home home;
	void *handle;

	if (sdt_home_make(&provider->api, image, &home) != 0)
		return -1;
	handle = open_library(provider, image, &home);
	if (!handle) {
		sdt_home_discard(&home);
		return -1;
	}
	if (!home.in_memory) {
		close(home.fd);
		home.fd = -1;
		provider->loader = sdt_this_process();
	}
	provider->handle = handle;
	provider->home = home;
	if (guard_forks(provider, image) != 0 ||
	    sdt_observe_load(provider, provider->base + (uintptr_t)image->offset[SDT_TEXT]) != 0) {
		unload_provider(provider);
		return sdt_fail(&provider->api, sharedLibraryOpenError, "load %s: out of memory",
				provider->name);
	}
	show_members(provider);
	return 0;
}

/* report_place writes where the image is, with STAPSDT_DEBUG=1. libelf builds every image. */
static void report_place(const SDTProvider_t *provider, const struct sdt_nop *nop)
{
	if (sdt_is_debugged())
		dprintf(STDERR_FILENO, "stapsdt: %s: placed in %s (%s, built by libelf)\n",
			provider->name, provider->_filename, nop->name);
}

int providerLoad(SDTProvider_t *provider)
{
	struct sdt_image image;
	int status;

	if (!provider)
		return -1;
	sdt_clear(provider);
	if (sdt_is_loaded(provider))
		return 0;
	if (strchr(provider->name, '/'))
		return sdt_fail(provider, tmpCreationError, "load %s: the name has a slash",
				provider->name);
	/* dlopen would expand $LIB, $ORIGIN and $PLATFORM. */
	if (provider->_use_memfd != memfd_enabled && strchr(provider->name, '$'))
		return sdt_fail(provider, tmpCreationError,
				"load %s: the name has a dollar sign, which dlopen would expand",
				provider->name);
	sdt_program_prepare();
	if (sdt_image_host(sdt_provider(provider), &image) != 0)
		return -1;
	status = load_image(sdt_provider(provider), &image);
	free(image.bytes);
	if (status == 0) {
		report_place(provider, image.nop);
		sdt_tracer_await(provider->name);
	}
	return status;
}

int providerUnload(SDTProvider_t *provider)
{
	if (!provider)
		return -1;
	sdt_clear(provider);
	return sdt_is_loaded(provider) ? unload_provider(sdt_provider(provider)) : 0;
}
