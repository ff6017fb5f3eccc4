/* Tests of defining providers and probes, and of every definition that is refused. */
#include "test.h"

static const ArgType_t twelve[SDT_MAX_ARGUMENTS] = {uint8,  int8,   uint16, int16, uint32, int32,
						    uint64, int64,  uint8,  int8,  uint16, int16};

static void values(void)
{
	CHECK(noError == -1 && elfCreationError == 0 && tmpCreationError == 1);
	CHECK(sharedLibraryOpenError == 2 && symbolLoadingError == 3);
	CHECK(sharedLibraryCloseError == 4);
	CHECK(sdt_string == 16 && noarg == 0 && uint8 == 1 && int8 == -1 && uint16 == 2 && int16 == -2);
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
	CHECK(providerUseMemfd(NULL, memfd_enabled) == 0);
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
	CHECK_ERROR(provider, elfCreationError, "add a probe to refused: no name");
	CHECK(!providerAddProbe(provider, "", 0));
	CHECK_ERROR(provider, elfCreationError, "add a probe to refused: no name");
	CHECK(!providerAddProbeV(provider, "array", 13, types));
	CHECK_ERROR(provider, elfCreationError, "13 arguments, must be 0 to 12");
	CHECK(!providerAddProbeV(provider, "array", -5, types));
	CHECK(!providerAddProbeV(provider, "array", 1, NULL));
	CHECK_ERROR(provider, elfCreationError, "add probe refused:array: types is NULL");
	CHECK(!providerAddProbeV(provider, "array", 2, types));
	CHECK_ERROR(provider, elfCreationError, "argument 1 has the unknown type 0");
	CHECK(providerUseMemfd(provider, (MemFDOption_t)7) == 0);
	CHECK_ERROR(provider, elfCreationError, "choose where to keep refused: unknown option 7");
	CHECK(providerImage(provider, NULL, &size) == -1);
	CHECK_ERROR(provider, elfCreationError, "make the image of refused: image or size is NULL");
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
	CHECK_ERROR(provider, elfCreationError, "add probe same:event: the provider has it already, with other types");
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

static const SDTArgument_t done[] = {{"path", sdt_string}, {"status", int32}};

static void named(void)
{
	static const SDTArgument_t again[] = {{"path", sdt_string}, {"state", int32}};
	static const SDTArgument_t number[] = {{"path", uint64}, {"status", int32}};
	SDTProvider_t *provider = providerInit("named");
	SDTProbe_t *probe = providerAddNamedProbe(provider, "done", 2, done);
	char name[] = "count";
	SDTArgument_t copied = {name, uint64};

	CHECK(probe && probe->argCount == 2 && probe->argFmt[0] == sdt_string);
	CHECK(providerAddNamedProbe(provider, "done", 2, done) != NULL);
	CHECK(!providerAddNamedProbe(provider, "done", 2, again));
	CHECK_ERROR(provider, elfCreationError,
		    "add probe named:done: the provider has it already, with other names of arguments");
	CHECK(!providerAddNamedProbe(provider, "done", 2, number));
	CHECK_ERROR(provider, elfCreationError, "the provider has it already, with other types");
	CHECK(!providerAddProbe(provider, "done", 2, uint64, int32));
	CHECK(providerAddProbe(provider, "count", 1, uint64) != NULL);
	CHECK(providerAddNamedProbe(provider, "count", 1, &copied) != NULL);
	CHECK(providerAddProbe(provider, "count", 1, uint64) != NULL);
	name[0] = 'm';
	CHECK(!providerAddNamedProbe(provider, "count", 1, &copied));
	CHECK(providerAddNamedProbe(provider, "none", 0, NULL) != NULL);
	CHECK(providerAddProbe(provider, "none", 0) != NULL);
	providerDestroy(provider);
}

static void refuse_name(SDTProvider_t *provider, const char *first, const char *second,
			const char *fault)
{
	SDTArgument_t arguments[] = {{first, uint8}, {second, uint8}};
	char line[100];

	snprintf(line, sizeof line, "add probe refused:probe: argument 1 has %s", fault);
	CHECK(!providerAddNamedProbe(provider, "probe", 2, arguments));
	CHECK_ERROR(provider, elfCreationError, line);
}

static void names_are_refused(void)
{
	static const char longest[] = "abcdefghijklmnopqrstuvwxyz_ABCDEF";
	SDTProvider_t *provider = providerInit("refused");
	SDTArgument_t arguments[13] = {{longest + 1, uint8}, {"_9", noarg}};

	refuse_name(provider, "a", NULL, "no name");
	refuse_name(provider, "a", "", "no name");
	refuse_name(provider, "a", "a", "the name of another one");
	refuse_name(provider, "a", "9", "a name that is not a C identifier");
	refuse_name(provider, "a", "a-b", "a name that is not a C identifier");
	refuse_name(provider, "a", "gr\xc3\xb6\xc3\x9f" "e", "a name that is not a C identifier");
	refuse_name(provider, "a", longest, "a name of more than 32 bytes");
	refuse_name(provider, "a", "while", "a reserved name");
	refuse_name(provider, "a", "common_pid", "a reserved name");
	CHECK(!providerAddNamedProbe(NULL, "probe", 0, NULL));
	CHECK(!providerAddNamedProbe(provider, "probe", 1, NULL));
	CHECK_ERROR(provider, elfCreationError, "add probe refused:probe: arguments is NULL");
	CHECK(!providerAddNamedProbe(provider, "probe", 13, arguments));
	CHECK_ERROR(provider, elfCreationError, "13 arguments, must be 0 to 12");
	CHECK(!providerAddNamedProbe(provider, "probe", 2, arguments));
	CHECK_ERROR(provider, elfCreationError, "argument 1 has the unknown type 0");
	CHECK(!providerAddProbe(provider, "probe", 1, sdt_string));
	CHECK_ERROR(provider, elfCreationError, "argument 0 has the unknown type 16");
	CHECK(provider->probes == NULL);
	CHECK(providerAddNamedProbe(provider, "probe", 1, arguments) != NULL);
	providerDestroy(provider);
}

/* has_bytes reports whether a string with its NUL is in the image of the provider. */
static bool has_bytes(SDTProvider_t *provider, const char *string)
{
	void *image = NULL;
	size_t size;
	bool found;

	CHECK(providerImage(provider, &image, &size) == 0);
	found = memmem(image, size, string, strlen(string) + 1) != NULL;
	free(image);
	return found;
}

static void named_image(void)
{
	SDTProvider_t *provider = providerInit("image");

	CHECK(providerAddNamedProbe(provider, "none", 0, NULL) != NULL);
	CHECK(!has_bytes(provider, ".debug_info"));
	CHECK(providerAddNamedProbe(provider, "done", 2, done) != NULL);
	CHECK(has_bytes(provider, ".debug_info") && has_bytes(provider, "status"));
	CHECK(providerLoad(provider) == 0);
	CHECK(!providerAddNamedProbe(provider, "late", 2, done));
	CHECK_ERROR(provider, elfCreationError, "add probe image:late: the provider is loaded");
	CHECK(providerUnload(provider) == 0);
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
	CHECK_ERROR(provider, elfCreationError, "the provider has it already");
	free(image);
	providerDestroy(provider);
}

static const struct test tests[] = {
	{"values", values},
	{"names are copied", names_are_copied},
	{"NULL is survived", null_is_survived},
	{"bad definitions are refused", refused},
	{"the same name", same_name},
	{"names of arguments", named},
	{"bad names of arguments are refused", names_are_refused},
	{"names of arguments in the image", named_image},
	{"long names", long_names},
};

TEST_MAIN("define", tests)
