/*
 * A test in which every allocation fails once. It is linked with --wrap=malloc and so
 * on, and with libelf.a, so that the allocations of libelf fail too.
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

static long left = -1; /* allocations before the one that fails, or negative if none does */
static long live;
static bool failed;
static long asked; /* how many allocations there were */

static bool allocation_fails(void)
{
	asked++;
	if (left < 0 || left-- > 0)
		return false;
	failed = true;
	return true;
}

static void *count_block(void *memory)
{
	live += memory != NULL;
	return memory;
}

void *__wrap_malloc(size_t size)
{
	return allocation_fails() ? NULL : count_block(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return allocation_fails() ? NULL : count_block(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
	void *memory;

	if (allocation_fails())
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

/* check_errors checks what a call left, given whether it succeeded. */
static bool check_errors(SDTProvider_t *provider, bool succeeded)
{
	CHECK((providerErrno(provider) == noError) == succeeded);
	CHECK((*providerError(provider) == '\0') == succeeded);
	CHECK(succeeded || failed);
	return succeeded;
}

static void define_probes(SDTProvider_t *provider)
{
	static const ArgType_t types[12] = {uint8, int8,  uint16, int16, uint32, int32,
					    uint64, int64, uint8,  int8,  uint16, int16};
	char name[32];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof name, "probe%d", i);
		check_errors(provider, providerAddProbe(provider, name, 2, uint64, int32) != NULL);
	}
	check_errors(provider, providerAddProbeV(provider, "twelve", 12, types) != NULL);
	check_errors(provider, providerAddProbeV(provider, "twelve", 12, types) != NULL);
	for (int i = 0; i < 20; i++) {
		char argument[32];
		SDTArgument_t arguments[] = {{"path", sdt_string}, {argument, int32}};

		snprintf(name, sizeof name, "named%d", i);
		snprintf(argument, sizeof argument, "status%d", i);
		check_errors(provider, providerAddNamedProbe(provider, name, 2, arguments) != NULL);
	}
}

/* fire_probes fires all probes, which allocates nothing. */
static void fire_probes(SDTProvider_t *provider)
{
	long before = asked;

	for (SDTProbeList_t *list = provider->probes; list; list = list->next) {
		CHECK((list->probe._fire != NULL) == (provider->_handle != NULL));
		probeFireV(&list->probe, (uint64_t[12]){0});
	}
	CHECK(asked == before);
}

static bool use_provider(MemFDOption_t place)
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
	define_probes(provider);
	if (check_errors(provider, providerImage(provider, &image, &size) == 0))
		free(image);
	else
		good = false;
	if (!check_errors(provider, providerLoad(provider) == 0))
		good = false;
	fire_probes(provider);
	if (provider->_handle)
		check_errors(provider, providerUnload(provider) == 0);
	fire_probes(provider);
	if (check_errors(provider, providerLoad(provider) == 0))
		fire_probes(provider);
	providerDestroy(provider);
	return good;
}

static void fail_each_allocation(MemFDOption_t place)
{
	int files = test_files();
	long at, before;

	CHECK(use_provider(place));
	before = live;
	for (at = 0;; at++) {
		int descriptors = test_descriptors();

		failed = false;
		left = at;
		use_provider(place);
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
	CHECK(use_provider(place));
}

static void in_memory(void)
{
	fail_each_allocation(memfd_enabled);
}

static void in_a_file(void)
{
	fail_each_allocation(memfd_disabled);
}

static void while_recorded(void)
{
	char path[64];

	snprintf(path, sizeof path, "/dev/shm/sdttest%d-alloc", (int)getpid());
	CHECK(sdtRecord(path, 1) == 0);
	fail_each_allocation(memfd_enabled);
	sdtStopRecording();
	CHECK(unlink(path) == 0);
}

static const struct test tests[] = {
	{"each allocation fails, in memory", in_memory},
	{"each allocation fails, in a file", in_a_file},
	{"each allocation fails, recorded", while_recorded},
};

TEST_MAIN("alloc", tests)
