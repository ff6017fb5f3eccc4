/*
 * Random sequences of calls, each answer compared with what the header says.
 * TEST_SEED=N repeats the sequences of a run, which prints its seed.
 */
#include "test.h"

#include <time.h>

enum { PROVIDERS = 4, NAMES = 5, PROBES = 40, STEPS = 400 };

/* What a provider is, by its documentation. */
struct model {
	SDTProvider_t *provider;
	char name[400];
	MemFDOption_t place;
	bool loaded;
	int probes, described; /* described are those that the last image has */
	struct {
		SDTProbe_t *probe;
		int name, count;
		ArgType_t types[SDT_MAX_ARGUMENTS];
	} probe[PROBES];
};

static struct model models[PROVIDERS];
static uint64_t state;

static int below(int limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (int)((state >> 11) % (uint64_t)limit);
}

static const ArgType_t valid[] = {uint8, int8, uint16, int16, uint32, int32, uint64, int64};
static const char *const probe_names[NAMES] = {"event", "a b:c", "%s%n", "-x", "../\n\x80"};

/* expect compares the code, and that there is one line of error exactly where there is one. */
static bool expect(struct model *model, bool succeeded, SDTError_t code)
{
	const char *error = providerError(model->provider);

	CHECK(providerErrno(model->provider) == code);
	CHECK(succeeded == (code == noError));
	CHECK((*error == '\0') == succeeded);
	return succeeded;
}

static void make(struct model *model)
{
	static const char *const names[] = {"plain", "..", "%s%n%d", "-rf", "a b\nc", "\xc3\xbc", "a/b"};
	int choice = below(10);

	memset(model, 0, sizeof *model);
	if (choice < 7) {
		snprintf(model->name, sizeof model->name, "sdttest%d-%s", (int)getpid(), names[choice]);
	} else { /* as long as a file's or a memfd's name may be, and longer */
		memset(model->name, 'n', 240 + (size_t)below(30));
		memcpy(model->name, "sdttest", 7);
	}
	model->provider = providerInit(model->name);
	model->place = memfd_enabled;
	CHECK(model->provider && strcmp(model->provider->name, model->name) == 0);
}

static void destroy(struct model *model)
{
	providerDestroy(model->provider);
	model->provider = NULL;
}

/* refused says whether a definition is to be. */
static bool refused(const struct model *model, int name, int count, const ArgType_t *types, int limit)
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

static void add(struct model *model)
{
	ArgType_t t[16];
	int name = below(NAMES), count = below(8) ? name : below(16) - 2;
	bool array = below(2), bad = false;
	SDTProbe_t *probe;

	if (model->probes == PROBES)
		return;
	for (int i = 0; i < 16; i++) /* mostly what the name has, so that it is taken again */
		t[i] = below(50) ? valid[(name + i) % 8] : below(2) ? noarg : (ArgType_t)3;
	bad = refused(model, name, count, t, array ? SDT_MAX_ARGUMENTS : MAX_ARGUMENTS);
	probe = array ? providerAddProbeV(model->provider, probe_names[name], count, t)
		      : providerAddProbe(model->provider, probe_names[name], count, t[0], t[1], t[2],
					 t[3], t[4], t[5]);
	CHECK((probe == NULL) == bad);
	if (!expect(model, probe != NULL, bad ? elfCreationError : noError))
		return;
	CHECK(strcmp(probe->name, probe_names[name]) == 0 && probe->argCount == count);
	CHECK(probe->provider == model->provider && probe->_fire == NULL);
	model->probe[model->probes].probe = probe;
	model->probe[model->probes].name = name;
	model->probe[model->probes].count = count;
	memcpy(model->probe[model->probes++].types, t, (size_t)count * sizeof *t);
}

static void choose(struct model *model)
{
	MemFDOption_t place = (MemFDOption_t)below(3);
	bool bad = model->loaded || place > memfd_enabled;

	if (expect(model, providerUseMemfd(model->provider, place) == 0,
		   bad ? elfCreationError : noError))
		model->place = place;
}

static void load(struct model *model)
{
	size_t length = strlen(model->name);
	bool fits = length <= (model->place == memfd_enabled ? 249 : 245);
	SDTError_t code = noError;

	if (model->loaded)
		code = sharedLibraryOpenError;
	else if (strchr(model->name, '/') || !fits)
		code = tmpCreationError;
	if (!model->loaded && !strchr(model->name, '/'))
		model->described = model->probes; /* the image is made before its place */
	if (expect(model, providerLoad(model->provider) == 0, code))
		model->loaded = true;
}

static void unload(struct model *model)
{
	expect(model, providerUnload(model->provider) == 0,
	       model->loaded ? noError : sharedLibraryCloseError);
	model->loaded = false;
}

static void image(struct model *model)
{
	unsigned char *bytes;
	size_t size;

	if (!expect(model, providerImage(model->provider, (void **)&bytes, &size) == 0, noError))
		return;
	CHECK(size > 64 && memcmp(bytes, "\x7f" "ELF", 4) == 0);
	free(bytes);
	model->described = model->probes;
}

static void fire(struct model *model)
{
	uint64_t words[SDT_MAX_ARGUMENTS] = {1, 2, 3};
	SDTProbe_t *probe, copy;

	if (model->probes == 0)
		return;
	probe = model->probe[below(model->probes)].probe;
	copy = *probe; /* as wrappers do */
	probeFire(below(2) ? probe : &copy, words[0], words[1], words[2], words[3], words[4], words[5],
		  words[6], words[7], words[8], words[9], words[10], words[11]);
	probeFireV(probe, below(2) ? words : NULL);
}

/* agree compares what can be asked of a provider. */
static void agree(struct model *model)
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

static void (*const calls[])(struct model *) = {add, add, add, choose, load, load, unload, image, fire, fire};

static void sequence(void)
{
	for (int step = 0; step < STEPS && !test_failures; step++) {
		struct model *model = &models[below(PROVIDERS)];

		if (!model->provider)
			make(model);
		else if (below(40) == 0)
			destroy(model);
		else
			calls[below((int)(sizeof calls / sizeof *calls))](model);
		if (model->provider)
			agree(model);
	}
	for (int i = 0; i < PROVIDERS; i++)
		destroy(&models[i]);
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
