/* Providers and probes as they are defined, and everything that is refused. */
#include "test.h"

static const ArgType_t twelve[SDT_MAX_ARGUMENTS] = {uint8,  int8,   uint16, int16, uint32, int32,
						    uint64, int64,  uint8,  int8,  uint16, int16};

static void layout(void)
{
	SDTProvider_t *provider = providerInit("layout");
	SDTProbe_t *first = providerAddProbe(provider, "first", 6, uint8, int8, uint16, int16,
					     uint32, int64);
	SDTProbe_t *second = providerAddProbeV(provider, "second", 12, twelve);
	char *bytes = (char *)provider, *probe = (char *)second;
	size_t w = sizeof(void *);

	CHECK(sizeof(SDTProvider_t) == 6 * w + 8 && sizeof(SDTProbe_t) == 4 * w + 24);
	CHECK(sizeof(SDTProbeList_t) == 5 * w + 24 && sizeof(ArgType_t) == 4);
	CHECK(strcmp(*(char **)bytes, "layout") == 0);
	CHECK(*(void **)(bytes + w) == first);
	CHECK(*(int *)(bytes + 2 * w) == -1);
	CHECK(*(void **)(bytes + 3 * w) == NULL && *(void **)(bytes + 4 * w) == NULL);
	CHECK(*(void **)(bytes + 5 * w) == NULL);
	CHECK(*(int *)(bytes + 6 * w) == -1 && *(int *)(bytes + 6 * w + 4) == memfd_enabled);
	CHECK(strcmp(*(char **)probe, "second") == 0);
	CHECK(*(int *)(probe + w) == uint8 && *(int *)(probe + w + 20) == int32);
	CHECK(*(void **)(probe + w + 24) == NULL && *(void **)(probe + 2 * w + 24) == provider);
	CHECK(*(int *)(probe + 3 * w + 24) == 12);
	CHECK(provider->probes->next == (SDTProbeList_t *)(void *)second);
	CHECK(provider->probes->next->next == NULL);
	CHECK(first->argFmt[5] == int64 && first->argCount == 6);
	providerDestroy(provider);
}

static void values(void)
{
	CHECK(noError == -1 && elfCreationError == 0 && tmpCreationError == 1);
	CHECK(sharedLibraryOpenError == 2 && symbolLoadingError == 3);
	CHECK(sharedLibraryCloseError == 4);
	CHECK(noarg == 0 && uint8 == 1 && int8 == -1 && uint16 == 2 && int16 == -2);
	CHECK(uint32 == 4 && int32 == -4 && uint64 == 8 && int64 == -8);
	CHECK(memfd_disabled == 0 && memfd_enabled == 1);
	CHECK(MAX_ARGUMENTS == 6 && SDT_MAX_ARGUMENTS == 12);
}

static void names_are_copied(void)
{
	char provider_name[] = "copied", probe_name[] = "probe";
	SDTProvider_t *provider = providerInit(provider_name);
	SDTProbe_t *probe = providerAddProbe(provider, probe_name, 0);

	provider_name[0] = probe_name[0] = 'X';
	CHECK(strcmp(provider->name, "copied") == 0 && strcmp(probe->name, "probe") == 0);
	providerDestroy(provider);
}

static void null_is_survived(void)
{
	void *image;
	size_t size;

	CHECK(!providerInit(NULL) && !providerInit(""));
	CHECK(!providerAddProbe(NULL, "probe", 0) && !providerAddProbeV(NULL, "probe", 0, NULL));
	CHECK(providerLoad(NULL) == -1 && providerUnload(NULL) == -1);
	CHECK(providerUseMemfd(NULL, memfd_enabled) == -1);
	CHECK(providerImage(NULL, &image, &size) == -1);
	CHECK(probeOffset(NULL) == -1 && probeIsEnabled(NULL) == 0);
	CHECK_ERROR(NULL, elfCreationError, "no provider");
	probeFire(NULL, (uint64_t)1);
	probeFireV(NULL, (uint64_t[]){1});
	providerDestroy(NULL);
}

static void refused(void)
{
	SDTProvider_t *provider = providerInit("refused");
	ArgType_t types[13] = {uint8};
	void *image;
	size_t size;

	CHECK_ERROR(provider, noError, "");
	CHECK(!providerAddProbe(provider, "many", 7, uint8, uint8, uint8, uint8, uint8, uint8,
				uint8));
	CHECK_ERROR(provider, elfCreationError, "refused:many: 7 arguments, must be 0 to 6");
	CHECK(!providerAddProbe(provider, "negative", -1));
	CHECK_ERROR(provider, elfCreationError, "refused:negative: -1 arguments");
	CHECK(!providerAddProbe(provider, "huge", 0x7fffffff));
	CHECK_ERROR(provider, elfCreationError, "2147483647 arguments");
	CHECK(!providerAddProbe(provider, "three", 2, uint8, 3));
	CHECK_ERROR(provider, elfCreationError, "argument 1 has the unknown type 3");
	CHECK(!providerAddProbe(provider, "none", 1, noarg));
	CHECK_ERROR(provider, elfCreationError, "argument 0 has the unknown type 0");
	CHECK(!providerAddProbe(provider, NULL, 0));
	CHECK_ERROR(provider, elfCreationError, "no name");
	CHECK(!providerAddProbe(provider, "", 0));
	CHECK_ERROR(provider, elfCreationError, "no name");
	CHECK(!providerAddProbeV(provider, "array", 13, types));
	CHECK_ERROR(provider, elfCreationError, "13 arguments, must be 0 to 12");
	CHECK(!providerAddProbeV(provider, "array", -5, types));
	CHECK(!providerAddProbeV(provider, "array", 1, NULL));
	CHECK_ERROR(provider, elfCreationError, "no argument types");
	CHECK(!providerAddProbeV(provider, "array", 2, types));
	CHECK_ERROR(provider, elfCreationError, "argument 1 has the unknown type 0");
	CHECK(providerUseMemfd(provider, (MemFDOption_t)7) == -1);
	CHECK_ERROR(provider, elfCreationError, "unknown option 7");
	CHECK(providerImage(provider, NULL, &size) == -1);
	CHECK_ERROR(provider, elfCreationError, "nowhere");
	CHECK(providerImage(provider, &image, NULL) == -1);
	CHECK(provider->probes == NULL);
	CHECK(providerAddProbeV(provider, "array", 0, NULL) != NULL);
	CHECK_ERROR(provider, noError, "");
	CHECK(provider->error == NULL);
	providerDestroy(provider);
}

static void same_name(void)
{
	SDTProvider_t *provider = providerInit("same");
	SDTProbe_t *first = providerAddProbe(provider, "event", 2, uint64, int32);
	SDTProbe_t *second = providerAddProbe(provider, "event", 2, uint64, int32);

	CHECK(first && second && first != second);
	CHECK(!providerAddProbe(provider, "event", 2, uint64, uint32));
	CHECK_ERROR(provider, elfCreationError, "same:event: it is there already");
	CHECK(!providerAddProbe(provider, "event", 1, uint64));
	CHECK(!providerAddProbe(provider, "event", 0));
	providerDestroy(provider);

	provider = providerInit("same");
	CHECK(providerAddProbeV(provider, "long", 12, twelve) != NULL);
	CHECK(providerAddProbeV(provider, "long", 12, twelve) != NULL);
	CHECK(!providerAddProbe(provider, "long", 6, uint8, int8, uint16, int16, uint32, int32));
	CHECK(providerAddProbe(provider, "none", 0) && providerAddProbe(provider, "none", 0));
	providerDestroy(provider);
}

static void order(void)
{
	SDTProvider_t *provider = providerInit("order");
	char name[32];
	int i = 0;

	for (i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "probe%d", i);
		CHECK(providerAddProbe(provider, name, 0) != NULL);
	}
	i = 0;
	for (SDTProbeList_t *list = provider->probes; list; list = list->next) {
		snprintf(name, sizeof name, "probe%d", i++);
		CHECK(strcmp(list->probe.name, name) == 0);
	}
	CHECK(i == 1000);
	providerDestroy(provider);
}

static void long_names(void)
{
	static char name[100001];
	SDTProvider_t *provider;
	void *image = NULL;
	size_t size = 0;

	memset(name, 'n', sizeof name - 1);
	provider = providerInit(name);
	CHECK(providerAddProbe(provider, name, 1, int8) != NULL);
	CHECK(providerImage(provider, &image, &size) == 0 && size > 300000);
	CHECK(!providerAddProbe(provider, name, 1, uint8));
	CHECK_ERROR(provider, elfCreationError, "it is there already");
	free(image);
	providerDestroy(provider);
}

static const struct test tests[] = {
	{"struct layout", layout},
	{"values", values},
	{"names are copied", names_are_copied},
	{"NULL is survived", null_is_survived},
	{"bad definitions are refused", refused},
	{"the same name", same_name},
	{"order of definition", order},
	{"long names", long_names},
};

TEST_MAIN("define", tests)
