#include "private.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Wrappers in other languages read these structs by offset. */
#if UINTPTR_MAX == UINT64_MAX
#define AT(type, member, offset) \
	_Static_assert(offsetof(type, member) == (offset), #type "." #member)
AT(SDTProbe_t, name, 0);
AT(SDTProbe_t, argFmt, 8);
AT(SDTProbe_t, _fire, 32);
AT(SDTProbe_t, provider, 40);
AT(SDTProbe_t, argCount, 48);
_Static_assert(sizeof(SDTProbe_t) == 56, "SDTProbe_t");
AT(SDTProbeList_t, probe, 0);
AT(SDTProbeList_t, next, 56);
AT(SDTProvider_t, name, 0);
AT(SDTProvider_t, probes, 8);
AT(SDTProvider_t, errno, 16);
AT(SDTProvider_t, error, 24);
AT(SDTProvider_t, _handle, 32);
AT(SDTProvider_t, _filename, 40);
AT(SDTProvider_t, _memfd, 48);
AT(SDTProvider_t, _use_memfd, 52);
_Static_assert(sizeof(SDTProvider_t) == 56, "SDTProvider_t");
#endif
_Static_assert(offsetof(struct sdt_probe, list) == 0, "probe is not first");
_Static_assert(offsetof(struct sdt_provider, api) == 0, "provider is not first");

SDTProvider_t *providerInit(const char *name)
{
	struct sdt_provider *provider;
	size_t name_size, size;

	if (!name || !*name)
		return NULL;
	name_size = strlen(name) + 1;
	if (__builtin_add_overflow(sizeof *provider, name_size, &size))
		return NULL;
	provider = calloc(1, size);
	if (!provider)
		return NULL;
	memcpy(provider->name, name, name_size);
	provider->name_size = name_size;
	provider->api.name = provider->name;
	provider->api.errno = noError;
	provider->api._memfd = -1;
	provider->api._use_memfd = memfd_enabled;
	return &provider->api;
}

/* check is what can be said before the types are read. */
static int check(SDTProvider_t *provider, const char *name, int count, int limit)
{
	sdt_clear(provider);
	if (!name || !*name)
		return sdt_fail(provider, elfCreationError, "add a probe to %s: no name",
				provider->name);
	if (provider->_handle)
		return sdt_fail(provider, elfCreationError,
				"add probe %s:%s: the provider is loaded", provider->name, name);
	if (count < 0 || count > limit)
		return sdt_fail(provider, elfCreationError,
				"add probe %s:%s: %d arguments, must be 0 to %d", provider->name,
				name, count, limit);
	return 0;
}

static bool is_type(ArgType_t type)
{
	switch (type) {
	case uint8:
	case int8:
	case uint16:
	case int16:
	case uint32:
	case int32:
	case uint64:
	case int64:
		return true;
	case noarg:
		break;
	}
	return false;
}

static int check_types(SDTProvider_t *provider, const char *name, int count, const ArgType_t *types)
{
	const struct sdt_probe *other;

	for (int i = 0; i < count; i++)
		if (!is_type(types[i]))
			return sdt_fail(provider, elfCreationError,
					"add probe %s:%s: argument %d has the unknown type %d",
					provider->name, name, i, (int)types[i]);
	other = sdt_names_find(&sdt_provider(provider)->names, name);
	if (!other)
		return 0;
	if (other->list.probe.argCount != count ||
	    (count > 0 && memcmp(other->types, types, (size_t)count * sizeof *types) != 0))
		return sdt_fail(provider, elfCreationError,
				"add probe %s:%s: it is there already, with other arguments",
				provider->name, name);
	return 0;
}

static struct sdt_probe *make(const char *name, int count, const ArgType_t *types)
{
	struct sdt_probe *probe;
	size_t name_size = strlen(name) + 1, size;

	if (__builtin_add_overflow(sizeof *probe, name_size, &size))
		return NULL;
	probe = calloc(1, size);
	if (!probe)
		return NULL;
	memcpy(probe->name, name, name_size);
	probe->name_size = name_size;
	probe->list.probe.name = probe->name;
	probe->list.probe.argCount = count;
	for (int i = 0; i < count; i++) {
		probe->types[i] = types[i];
		if (i < MAX_ARGUMENTS)
			probe->list.probe.argFmt[i] = types[i];
	}
	return probe;
}

static SDTProbe_t *add(SDTProvider_t *api, const char *name, int count, const ArgType_t *types)
{
	struct sdt_provider *provider = sdt_provider(api);
	struct sdt_probe *probe;

	if (check_types(api, name, count, types) != 0)
		return NULL;
	probe = make(name, count, types);
	if (!probe || !sdt_names_reserve(&provider->names)) {
		free(probe);
		sdt_fail(api, elfCreationError, "add probe %s:%s: out of memory", api->name, name);
		return NULL;
	}
	probe->list.probe.provider = api;
	probe->index = provider->count++;
	if (provider->last)
		provider->last->list.next = &probe->list;
	else
		api->probes = &probe->list;
	provider->last = probe;
	sdt_names_add(&provider->names, probe);
	return &probe->list.probe;
}

SDTProbe_t *providerAddProbe(SDTProvider_t *provider, const char *name, int argCount, ...)
{
	ArgType_t types[MAX_ARGUMENTS];
	va_list values;

	if (!provider || check(provider, name, argCount, MAX_ARGUMENTS) != 0)
		return NULL;
	va_start(values, argCount);
	for (int i = 0; i < argCount; i++)
		types[i] = (ArgType_t)va_arg(values, int);
	va_end(values);
	return add(provider, name, argCount, types);
}

SDTProbe_t *providerAddProbeV(SDTProvider_t *provider, const char *name, int argCount,
			      const ArgType_t *types)
{
	if (!provider || check(provider, name, argCount, SDT_MAX_ARGUMENTS) != 0)
		return NULL;
	if (!types && argCount > 0) {
		sdt_fail(provider, elfCreationError, "add probe %s:%s: no argument types",
			 provider->name, name);
		return NULL;
	}
	return add(provider, name, argCount, types);
}

int providerUseMemfd(SDTProvider_t *provider, const MemFDOption_t use_memfd)
{
	if (!provider)
		return -1;
	sdt_clear(provider);
	if (provider->_handle)
		return sdt_fail(provider, elfCreationError,
				"choose where %s is loaded: it is loaded", provider->name);
	if (use_memfd != memfd_enabled && use_memfd != memfd_disabled)
		return sdt_fail(provider, elfCreationError,
				"choose where %s is loaded: unknown option %d", provider->name,
				(int)use_memfd);
	provider->_use_memfd = use_memfd;
	return 0;
}

void providerDestroy(SDTProvider_t *provider)
{
	SDTProbeList_t *probe, *next;

	if (!provider)
		return;
	if (provider->_handle)
		(void)providerUnload(provider);
	for (probe = provider->probes; probe; probe = next) {
		next = probe->next;
		free(probe);
	}
	free(sdt_provider(provider)->names.slots);
	free(provider->error);
	free(provider);
}
