/* Tests of threads: a provider for each, and one provider that all of them fire. */
#include "test.h"

#include <pthread.h>

#define THREADS 4

static void *reload_providers(void *data)
{
	int index = *(int *)data;

	for (int i = 0; i < 50; i++) {
		char name[32];
		SDTProvider_t *provider;

		snprintf(name, sizeof name, "thread%d", index);
		provider = test_provider(name);
		providerUseMemfd(provider, index & 1 ? memfd_enabled : memfd_disabled);
		for (int k = 0; k < 20; k++) {
			snprintf(name, sizeof name, "probe%d", k);
			if (!providerAddProbe(provider, name, 1, uint64))
				return "add";
		}
		if (providerLoad(provider) != 0)
			return "load";
		for (SDTProbeList_t *list = provider->probes; list; list = list->next)
			probeFire(&list->probe, (uint64_t)i);
		if (providerUnload(provider) != 0)
			return "unload";
		providerDestroy(provider);
	}
	return NULL;
}

static void *fire_probe(void *data)
{
	for (int i = 0; i < 100000; i++) {
		if (probeIsEnabled(data))
			return "enabled";
		probeFire(data, (uint64_t)i);
		probeFireV(data, NULL);
	}
	return NULL;
}

static void in_threads(void *(*run)(void *), void *const data[THREADS])
{
	pthread_t threads[THREADS];
	void *result;

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, run, data[i]) == 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], &result) == 0);
		if (result)
			printf("# thread %d: %s\n", i, (char *)result);
		CHECK(result == NULL);
	}
}

static void one_each(void)
{
	int numbers[THREADS] = {0, 1, 2, 3};

	in_threads(reload_providers, (void *[]){&numbers[0], &numbers[1], &numbers[2], &numbers[3]});
}

static void one_for_all(void)
{
	SDTProvider_t *provider = test_provider("shared");
	SDTProbe_t *probe = providerAddProbe(provider, "probe", 1, uint64);

	CHECK(providerLoad(provider) == 0);
	in_threads(fire_probe, (void *[]){probe, probe, probe, probe});
	providerDestroy(provider);
}

static const struct test tests[] = {
	{"a provider each", one_each},
	{"a provider for all", one_for_all},
};

TEST_MAIN("threads", tests)
