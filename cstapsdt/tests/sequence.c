/*
 * Tests by random sequences of calls: each answer is compared with the documentation.
 * A run prints its seed, and TEST_SEED=N repeats its sequences.
 */
#include "test.h"

#include <time.h>

enum { PROVIDERS = 4, NAMES = 5, PROBES = 40, STEPS = 400 };

/* The state of a provider, by its documentation. */
struct model {
	SDTProvider_t *provider;
	char name[400];
	MemFDOption_t place;
	bool loaded;
	int probes, described; /* described counts those in the last image */
	struct {
		SDTProbe_t *probe;
		int name, count;
		ArgType_t types[SDT_MAX_ARGUMENTS];
	} probe[PROBES];
};

static struct model models[PROVIDERS];
static uint64_t state;

static int number_below(int limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (int)((state >> 11) % (uint64_t)limit);
}

static const ArgType_t valid[] = {uint8, int8, uint16, int16, uint32, int32, uint64, int64};
static const char *const probe_names[NAMES] = {"event", "a b:c", "%s%n", "-x", "../\n\x80"};

/* expect_code checks the code, and that there is an error line if and only if the call failed. */
static bool expect_code(struct model *model, bool succeeded, SDTError_t code)
{
	const char *error = providerError(model->provider);

	CHECK(providerErrno(model->provider) == code);
	CHECK(succeeded == (code == noError));
	CHECK((*error == '\0') == succeeded);
	return succeeded;
}

static void make_provider(struct model *model)
{
	static const char *const names[] = {"plain", "..", "%s%n%d", "-rf", "a b\nc", "\xc3\xbc", "a/b"};
	int choice = number_below(10);

	memset(model, 0, sizeof *model);
	if (choice < 7) {
		snprintf(model->name, sizeof model->name, "sdttest%d-%s", (int)getpid(), names[choice]);
	} else { /* up to the limit of a file's or a memfd's name, and beyond */
		memset(model->name, 'n', 240 + (size_t)number_below(30));
		memcpy(model->name, "sdttest", 7);
	}
	model->provider = providerInit(model->name);
	model->place = memfd_enabled;
	CHECK(model->provider && strcmp(model->provider->name, model->name) == 0);
}

static void destroy_provider(struct model *model)
{
	providerDestroy(model->provider);
	model->provider = NULL;
}

/* definition_is_refused reports whether the library must refuse a definition. */
static bool definition_is_refused(const struct model *model, int name, int count, const ArgType_t *types,
				  int limit)
{
	if (model->loaded || count < 0 || count > limit)
		return true;
	for (int i = 0; i < count; i++)
		if (types[i] == noarg || types[i] == (ArgType_t)3)
			return true;
	for (int i = 0; i < model->probes; i++)
		if (model->probe[i].name == name &&
		    (model->probe[i].count != count ||
		     memcmp(model->probe[i].types, types, (size_t)count * sizeof *types) != 0))
			return true;
	return false;
}

static void add_probe(struct model *model)
{
	ArgType_t t[16];
	int name = number_below(NAMES), count = number_below(8) ? name : number_below(16) - 2;
	bool array = number_below(2), bad = false;
	SDTProbe_t *probe;

	if (model->probes == PROBES)
		return;
	for (int i = 0; i < 16; i++) /* mostly the types of that name, so that it is accepted again */
		t[i] = number_below(50) ? valid[(name + i) % 8] : number_below(2) ? noarg : (ArgType_t)3;
	bad = definition_is_refused(model, name, count, t, array ? SDT_MAX_ARGUMENTS : MAX_ARGUMENTS);
	probe = array ? providerAddProbeV(model->provider, probe_names[name], count, t)
		      : providerAddProbe(model->provider, probe_names[name], count, t[0], t[1], t[2],
					 t[3], t[4], t[5]);
	CHECK((probe == NULL) == bad);
	if (!expect_code(model, probe != NULL, bad ? elfCreationError : noError))
		return;
	CHECK(strcmp(probe->name, probe_names[name]) == 0 && probe->argCount == count);
	CHECK(probe->provider == model->provider && probe->_fire == NULL);
	model->probe[model->probes].probe = probe;
	model->probe[model->probes].name = name;
	model->probe[model->probes].count = count;
	memcpy(model->probe[model->probes++].types, t, (size_t)count * sizeof *t);
}

static void choose_place(struct model *model)
{
	MemFDOption_t place = (MemFDOption_t)number_below(3);
	bool bad = model->loaded || place > memfd_enabled;

	if (expect_code(model, providerUseMemfd(model->provider, place) == 1,
			bad ? elfCreationError : noError))
		model->place = place;
}

static void load_provider(struct model *model)
{
	size_t length = strlen(model->name);
	bool fits = length <= (model->place == memfd_enabled ? 249 : 245);
	SDTError_t code = noError;

	if (!model->loaded && (strchr(model->name, '/') || !fits))
		code = tmpCreationError;
	if (!model->loaded && !strchr(model->name, '/'))
		model->described = model->probes; /* the image is built before its place is made */
	if (expect_code(model, providerLoad(model->provider) == 0, code))
		model->loaded = true;
}

static void unload_provider(struct model *model)
{
	expect_code(model, providerUnload(model->provider) == 0, noError);
	model->loaded = false;
}

static void make_image(struct model *model)
{
	unsigned char *bytes;
	size_t size;

	if (!expect_code(model, providerImage(model->provider, (void **)&bytes, &size) == 0, noError))
		return;
	CHECK(size > 64 && memcmp(bytes, "\x7f" "ELF", 4) == 0);
	free(bytes);
	model->described = model->probes;
}

static void fire_probe(struct model *model)
{
	uint64_t words[SDT_MAX_ARGUMENTS] = {1, 2, 3};
	SDTProbe_t *probe, copy;

	if (model->probes == 0)
		return;
	probe = model->probe[number_below(model->probes)].probe;
	copy = *probe; /* as wrappers do */
	probeFire(number_below(2) ? probe : &copy, words[0], words[1], words[2], words[3], words[4],
		  words[5], words[6], words[7], words[8], words[9], words[10], words[11]);
	probeFireV(probe, number_below(2) ? words : NULL);
}

/* compare_provider compares everything that the API tells of a provider. */
static void compare_provider(struct model *model)
{
	SDTProbeList_t *list = model->provider->probes;

	CHECK((model->provider->_handle != NULL) == model->loaded);
	CHECK((model->provider->_filename != NULL) == model->loaded);
	CHECK((model->provider->_memfd >= 0) == (model->loaded && model->place == memfd_enabled));
	for (int i = 0; i < model->probes; i++, list = list->next) {
		CHECK(&list->probe == model->probe[i].probe);
		CHECK((list->probe._fire != NULL) == model->loaded);
		CHECK((probeOffset(&list->probe) > 0) == (i < model->described));
		CHECK(probeIsEnabled(&list->probe) == 0);
	}
	CHECK(list == NULL);
}

static void (*const calls[])(struct model *) = {
	add_probe, add_probe, add_probe, choose_place, load_provider, load_provider,
	unload_provider, make_image, fire_probe, fire_probe};

static void sequence(void)
{
	for (int step = 0; step < STEPS && !test_failures; step++) {
		struct model *model = &models[number_below(PROVIDERS)];

		if (!model->provider)
			make_provider(model);
		else if (number_below(40) == 0)
			destroy_provider(model);
		else
			calls[number_below((int)(sizeof calls / sizeof *calls))](model);
		if (model->provider)
			compare_provider(model);
	}
	for (int i = 0; i < PROVIDERS; i++)
		destroy_provider(&models[i]);
}

static void sequences(void)
{
	const char *given = getenv("TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;

	printf("# TEST_SEED=%llu\n", (unsigned long long)seed);
	for (int i = 0; i < 20 && !test_failures; i++) {
		state = (seed + (uint64_t)i) * 0x9e3779b97f4a7c15 | 1;
		sequence();
	}
}

static const struct test tests[] = {
	{"random calls", sequences},
};

TEST_MAIN("sequence", tests)
