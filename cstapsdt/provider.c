/* Providers: defining them, adding their probes, and destroying them. */
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

/* check_definition checks a definition before its types are read. */
static int check_definition(SDTProvider_t *provider, const char *name, int count, int limit)
{
	sdt_clear(provider);
	if (!name || !*name) {
		sdt_fail(provider, elfCreationError, "add a probe to %s: no name", provider->name);
		return -1; /* clang's analyzer does not see this in sdt_fail */
	}
	if (sdt_is_loaded(provider))
		return sdt_fail(provider, elfCreationError,
				"add probe %s:%s: the provider is loaded", provider->name, name);
	if (count < 0 || count > limit)
		return sdt_fail(provider, elfCreationError,
				"add probe %s:%s: %d arguments, must be 0 to %d", provider->name,
				name, count, limit);
	return 0;
}

static bool is_type(ArgType_t type, bool named)
{
	switch (type) {
	case sdt_string:
		return named;
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

/* A definition of a probe. names is NULL if the arguments have none. */
struct definition {
	const char *name;
	int count;
	const ArgType_t *types;
	const char *const *names;
};

static int check_types(SDTProvider_t *provider, const struct definition *wanted)
{
	size_t size = (size_t)wanted->count * sizeof *wanted->types;
	const struct sdt_probe *other;

	for (int i = 0; i < wanted->count; i++)
		if (!is_type(wanted->types[i], wanted->names))
			return sdt_fail(provider, elfCreationError,
					"add probe %s:%s: argument %d has the unknown type %d",
					provider->name, wanted->name, i, (int)wanted->types[i]);
	other = sdt_names_find(&sdt_provider(provider)->names, wanted->name);
	if (!other)
		return 0;
	if (other->count != wanted->count ||
	    (wanted->types && memcmp(other->types, wanted->types, size) != 0))
		return sdt_fail(provider, elfCreationError,
				"add probe %s:%s: the provider has it already, with other types",
				provider->name, wanted->name);
	return 0;
}

/* are_names reports whether a probe's arguments have these names. */
static bool are_names(const char *arguments, const struct definition *wanted)
{
	for (int i = 0; i < wanted->count; i++) {
		if (strcmp(arguments, wanted->names[i]) != 0)
			return false;
		arguments += strlen(arguments) + 1;
	}
	return true;
}

static int check_names(SDTProvider_t *provider, const struct definition *wanted)
{
	const struct sdt_probe *other;
	const char *fault;

	for (int i = 0; wanted->names && i < wanted->count; i++) {
		fault = sdt_argument_fault(wanted->names[i]);
		for (int j = 0; !fault && j < i; j++)
			if (strcmp(wanted->names[i], wanted->names[j]) == 0)
				fault = "the name of another one";
		if (fault)
			return sdt_fail(provider, elfCreationError,
					"add probe %s:%s: argument %d has %s", provider->name,
					wanted->name, i, fault);
	}
	other = sdt_names_find(&sdt_provider(provider)->names, wanted->name);
	if (wanted->names && other && other->arguments && !are_names(other->arguments, wanted))
		return sdt_fail(provider, elfCreationError,
				"add probe %s:%s: the provider has it already, with other names of "
				"arguments",
				provider->name, wanted->name);
	return 0;
}

/* join_names returns the names in the form that a probe keeps, or NULL if memory is short. */
static char *join_names(const struct definition *wanted)
{
	size_t size = 0, length;
	char *joined, *out;

	for (int i = 0; i < wanted->count; i++)
		size += strlen(wanted->names[i]) + 1; /* a name is short */
	out = joined = malloc(size);
	for (int i = 0; joined && i < wanted->count; i++) {
		length = strlen(wanted->names[i]) + 1;
		memcpy(out, wanted->names[i], length);
		out += length;
	}
	return joined;
}

static struct sdt_probe *make_probe(const struct definition *wanted)
{
	struct sdt_probe *probe;
	size_t name_size = strlen(wanted->name) + 1, size;

	if (__builtin_add_overflow(sizeof *probe, name_size, &size))
		return NULL;
	probe = calloc(1, size);
	if (!probe)
		return NULL;
	memcpy(probe->name, wanted->name, name_size);
	probe->name_size = name_size;
	probe->list.probe.name = probe->name;
	probe->list.probe.argCount = probe->count = wanted->count;
	for (int i = 0; i < wanted->count; i++) {
		probe->types[i] = wanted->types[i];
		if (i < MAX_ARGUMENTS)
			probe->list.probe.argFmt[i] = wanted->types[i];
	}
	return probe;
}

static SDTProbe_t *fail_probe(SDTProvider_t *provider, const char *name, const char *reason)
{
	sdt_fail(provider, elfCreationError, "add probe %s:%s: %s", provider->name, name, reason);
	return NULL;
}

/* share_names gives the names to the first probe of the name, unless it has them already. */
static void share_names(struct sdt_provider *provider, const char *name, char *arguments)
{
	struct sdt_probe *first = sdt_names_find(&provider->names, name);

	if (!arguments || first->arguments) {
		free(arguments);
		return;
	}
	first->arguments = arguments;
	provider->named = true;
}

static SDTProbe_t *add_probe(SDTProvider_t *api, const struct definition *wanted)
{
	struct sdt_provider *provider = sdt_provider(api);
	bool named = wanted->names && wanted->count > 0;
	struct sdt_probe *probe;
	char *arguments = NULL;

	if (check_types(api, wanted) != 0 || check_names(api, wanted) != 0)
		return NULL;
	probe = make_probe(wanted);
	if (named)
		arguments = join_names(wanted);
	if (!probe || (named && !arguments) || !sdt_names_reserve(&provider->names)) {
		free(probe);
		free(arguments);
		return fail_probe(api, wanted->name, "out of memory");
	}
	probe->list.probe.provider = api;
	probe->index = provider->count++;
	if (provider->last)
		provider->last->list.next = &probe->list;
	else
		api->probes = &probe->list;
	provider->last = probe;
	sdt_names_add(&provider->names, &(struct sdt_name){probe->name, {.probe = probe}});
	share_names(provider, wanted->name, arguments);
	return &probe->list.probe;
}

SDTProbe_t *providerAddProbe(SDTProvider_t *provider, const char *name, int argCount, ...)
{
	ArgType_t types[MAX_ARGUMENTS];
	va_list values;

	if (!provider || check_definition(provider, name, argCount, MAX_ARGUMENTS) != 0)
		return NULL;
	va_start(values, argCount);
	for (int i = 0; i < argCount; i++)
		types[i] = (ArgType_t)va_arg(values, int);
	va_end(values);
	return add_probe(provider, &(struct definition){name, argCount, types, NULL});
}

SDTProbe_t *providerAddProbeV(SDTProvider_t *provider, const char *name, int argCount,
			      const ArgType_t *types)
{
	if (!provider || check_definition(provider, name, argCount, SDT_MAX_ARGUMENTS) != 0)
		return NULL;
	if (!types && argCount > 0)
		return fail_probe(provider, name, "types is NULL");
	return add_probe(provider, &(struct definition){name, argCount, types, NULL});
}

SDTProbe_t *providerAddNamedProbe(SDTProvider_t *provider, const char *name, int argCount,
				  const SDTArgument_t *arguments)
{
	ArgType_t types[SDT_MAX_ARGUMENTS];
	const char *names[SDT_MAX_ARGUMENTS];

	if (!provider || check_definition(provider, name, argCount, SDT_MAX_ARGUMENTS) != 0)
		return NULL;
	if (!arguments && argCount > 0)
		return fail_probe(provider, name, "arguments is NULL");
	for (int i = 0; i < argCount; i++) {
		types[i] = arguments[i].type;
		names[i] = arguments[i].name;
	}
	return add_probe(provider, &(struct definition){name, argCount, types, names});
}

/* Like the original library, it returns 1 on success and 0 on failure. */
int providerUseMemfd(SDTProvider_t *provider, const MemFDOption_t use_memfd)
{
	if (!provider)
		return 0;
	sdt_clear(provider);
	if (sdt_is_loaded(provider))
		sdt_fail(provider, elfCreationError,
			 "choose where to keep %s: the provider is loaded", provider->name);
	else if (use_memfd != memfd_enabled && use_memfd != memfd_disabled)
		sdt_fail(provider, elfCreationError,
			 "choose where to keep %s: unknown option %d", provider->name,
			 (int)use_memfd);
	else {
		provider->_use_memfd = use_memfd;
		return 1;
	}
	return 0;
}

int providerUseSite(SDTProvider_t *provider, SDTSite_t site)
{
	if (!provider)
		return -1;
	sdt_clear(provider);
	if (sdt_is_loaded(provider))
		return sdt_fail(provider, elfCreationError,
				"choose the nop of %s: the provider is loaded", provider->name);
	if (site != sdt_site_safe && site != sdt_site_fast)
		return sdt_fail(provider, elfCreationError,
				"choose the nop of %s: unknown choice %d", provider->name,
				(int)site);
	sdt_provider(provider)->site = site;
	return 0;
}

void providerDestroy(SDTProvider_t *provider)
{
	SDTProbeList_t *probe, *next;

	if (!provider)
		return;
	if (sdt_is_loaded(provider))
		(void)providerUnload(provider);
	for (probe = provider->probes; probe; probe = next) {
		next = probe->next;
		free(((struct sdt_probe *)probe)->arguments);
		free(probe);
	}
	free(sdt_provider(provider)->names.slots);
	free(sdt_provider(provider)->observed);
	free(provider->error);
	free(provider);
}
