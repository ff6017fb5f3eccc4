/*
 * Every allocation fails once. This program is linked with --wrap=malloc and
 * so on, and with libelf.a, so that libelf's allocations fail as well.
 */
#include "test.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);

static long left = -1; /* allocations until the one that fails; negative: none does */
static long live;
static bool failed;

static bool fails(void)
{
	if (left < 0 || left-- > 0)
		return false;
	failed = true;
	return true;
}

static void *count(void *memory)
{
	live += memory != NULL;
	return memory;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : count(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
	void *memory;

	if (fails())
		return NULL;
	memory = __real_realloc(old, size);
	live += !old && memory;
	return memory;
}

void __wrap_free(void *memory)
{
	live -= memory != NULL;
	__real_free(memory);
}

/* consistent checks what a call left, given whether it succeeded. */
static bool consistent(SDTProvider_t *provider, bool succeeded)
{
	CHECK((providerErrno(provider) == noError) == succeeded);
	CHECK((*providerError(provider) == '\0') == succeeded);
	CHECK(succeeded || failed);
	return succeeded;
}

static void define(SDTProvider_t *provider)
{
	static const ArgType_t types[12] = {uint8, int8,  uint16, int16, uint32, int32,
					    uint64, int64, uint8,  int8,  uint16, int16};
	char name[32];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof name, "probe%d", i);
		consistent(provider, providerAddProbe(provider, name, 2, uint64, int32) != NULL);
	}
	consistent(provider, providerAddProbeV(provider, "twelve", 12, types) != NULL);
	consistent(provider, providerAddProbeV(provider, "twelve", 12, types) != NULL);
}

static void fire(SDTProvider_t *provider)
{
	for (SDTProbeList_t *list = provider->probes; list; list = list->next) {
		CHECK((list->probe._fire != NULL) == (provider->_handle != NULL));
		probeFireV(&list->probe, (uint64_t[12]){0});
	}
}

static bool everything(MemFDOption_t place)
{
	SDTProvider_t *provider = test_provider("alloc");
	bool good = provider != NULL;
	void *image;
	size_t size;

	if (!provider) {
		CHECK(failed);
		return false;
	}
	providerUseMemfd(provider, place);
	define(provider);
	if (consistent(provider, providerImage(provider, &image, &size) == 0))
		free(image);
	else
		good = false;
	if (!consistent(provider, providerLoad(provider) == 0))
		good = false;
	fire(provider);
	if (provider->_handle)
		consistent(provider, providerUnload(provider) == 0);
	fire(provider);
	if (consistent(provider, providerLoad(provider) == 0))
		fire(provider);
	providerDestroy(provider);
	return good;
}

static void each_fails(MemFDOption_t place)
{
	int files = test_files();
	long at, before;

	CHECK(everything(place));
	before = live;
	for (at = 0;; at++) {
		int descriptors = test_descriptors();

		failed = false;
		left = at;
		everything(place);
		left = -1;
		if (!failed)
			break;
		if (live != before)
			printf("# allocation %ld: %ld left\n", at, live - before);
		CHECK(live == before);
		CHECK(test_descriptors() == descriptors);
		CHECK(test_files() == files);
		before = live;
	}
	printf("# %ld allocations\n", at);
	CHECK(at > 100);
	CHECK(everything(place));
}

static void in_memory(void)
{
	each_fails(memfd_enabled);
}

static void in_a_file(void)
{
	each_fails(memfd_disabled);
}

static const struct test tests[] = {
	{"each allocation fails, in memory", in_memory},
	{"each allocation fails, in a file", in_a_file},
};

TEST_MAIN("alloc", tests)
