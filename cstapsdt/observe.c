/*
 * The loaded providers, and the recordings of their fires. A recorded probe has the address of its
 * slot's entry, which reads as patched, so that an idle fire has nothing more to test.
 */
#ifndef SDT_IN_GO
#include "recorder.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sdt_provider *loaded_providers;
struct sdt_sink sdt_sinks[SDT_SINKS];
static uint32_t last_epoch;

void sdt_observe_lock(void) { pthread_mutex_lock(&lock); }
bool sdt_observe_trylock(void) { return pthread_mutex_trylock(&lock) == 0; }
void sdt_observe_unlock(void) { pthread_mutex_unlock(&lock); }

/* sdt_observe_next returns the loaded provider after another, or the first one after NULL. */
const struct sdt_provider *sdt_observe_next(const struct sdt_provider *provider)
{
	return provider ? provider->next : loaded_providers;
}

static bool is_observed(void)
{
	for (int i = 0; i < SDT_SINKS; i++)
		if (sdt_sinks[i].epoch)
			return true;
	return false;
}

/* has_probe reports whether a sink has a probe. */
static bool has_probe(const struct sdt_sink *sink, const struct sdt_provider *provider,
		      const struct sdt_probe *probe)
{
	return !sink->patterns || sdt_patterns_select(sink->patterns, provider->name, probe->name);
}

static void describe_records(struct sdt_observation *o, const struct sdt_probe *probe)
{
	o->probe = probe;
	o->types = probe->types;
	o->count = (uint8_t)probe->list.probe.argCount;
	o->size = (uint32_t)(SDT_RECORD_HEAD_BYTES + 8 * (uint64_t)o->count);
	o->has_texts = false;
	for (int i = 0; i < o->count; i++)
		o->has_texts |= o->types[i] == sdt_string;
}

/* reserve_observations makes room for all probes of a provider. It returns -1 if there is no memory. */
static int reserve_observations(struct sdt_provider *provider)
{
	struct sdt_observed *observed = provider->observed;
	size_t size, count = observed ? observed->count : 0;
	const struct sdt_probe *probe = sdt_first(provider);

	if (observed && count == provider->count)
		return 0;
	if (__builtin_mul_overflow(provider->count, sizeof observed->of[0], &size) ||
	    __builtin_add_overflow(size, sizeof *observed, &size))
		return -1;
	observed = realloc(observed, size);
	if (!observed)
		return -1;
	if (count == 0)
		memset(observed, 0, sizeof *observed);
	memset(&observed->of[count], 0, (provider->count - count) * sizeof observed->of[0]);
	observed->count = provider->count;
	for (size_t i = 0; i < observed->count; i++, probe = sdt_next(probe))
		describe_records(&observed->of[i], probe);
	__atomic_store_n(&provider->observed, observed, __ATOMIC_RELEASE);
	return 0;
}

/* move_probe gives a probe the address of its site, or of its entry if it is recorded. */
static void move_probe(const struct sdt_provider *provider, struct sdt_probe *probe)
{
	size_t entry = SDT_SLOT - sdt_arch_find(SDT_HOST_ARCH)->entry_size;
	uintptr_t at = provider->sites + SDT_SLOT * probe->index;

	if (provider->observed && provider->observed->of[probe->index].sinks)
		at += entry;
	__atomic_store_n(&probe->list.probe._fire, (void *)at, __ATOMIC_RELEASE);
}

/* number_probe gives a probe the number that it has in a sink: probes of one name share one. */
static void number_probe(const struct sdt_sink *sink, struct sdt_provider *provider, size_t index)
{
	int i = (int)(sink - sdt_sinks);
	struct sdt_observation *o = &provider->observed->of[index];
	const struct sdt_probe *first = sdt_names_find(&provider->names, o->probe->name);

	if (!has_probe(sink, provider, o->probe))
		return;
	__atomic_store_n(&o->numbers[i],
			 first->index == index ? sdt_writer_add(sink->writer, provider, o->probe)
					       : provider->observed->of[first->index].numbers[i],
			 __ATOMIC_RELAXED);
	__atomic_or_fetch(&o->sinks, UINT32_C(1) << i, __ATOMIC_RELEASE);
}

/* observe_provider lets a sink have the probes of a provider that are not in it yet. */
static void observe_provider(const struct sdt_sink *sink, struct sdt_provider *provider)
{
	struct sdt_observed *observed = provider->observed;
	int i = (int)(sink - sdt_sinks);
	uint32_t bit = UINT32_C(1) << i;

	if (observed->epochs[i] != sink->epoch)
		for (size_t k = 0; k < observed->count; k++) {
			__atomic_and_fetch(&observed->of[k].sinks, ~bit, __ATOMIC_RELAXED);
			/* A fire may have read the bit, and find the sink used again. */
			__atomic_store_n(&observed->of[k].numbers[i], SDT_NOT_ASKED, __ATOMIC_RELAXED);
		}
	observed->epochs[i] = sink->epoch;
	for (size_t k = 0; sink->epoch && k < observed->count; k++)
		if (!(observed->of[k].sinks & bit))
			number_probe(sink, provider, k);
}

/* move_probes gives all probes of a provider their addresses. */
static void move_probes(struct sdt_provider *provider)
{
	for (SDTProbeList_t *p = provider->api.probes; p; p = p->next)
		move_probe(provider, (struct sdt_probe *)p);
}

/* sdt_observe_load publishes the sites of a provider. It returns -1 if there is no memory. */
int sdt_observe_load(struct sdt_provider *provider, uintptr_t sites)
{
	if ((is_observed() || provider->observed) && reserve_observations(provider) != 0)
		return -1;
	provider->sites = sites;
	for (int i = 0; provider->observed && i < SDT_SINKS; i++)
		observe_provider(&sdt_sinks[i], provider);
	provider->next = loaded_providers;
	provider->link = &loaded_providers;
	if (loaded_providers)
		loaded_providers->link = &provider->next;
	loaded_providers = provider;
	move_probes(provider);
	return 0;
}

void sdt_observe_unload(struct sdt_provider *provider)
{
	for (SDTProbeList_t *p = provider->api.probes; p; p = p->next)
		__atomic_store_n(&p->probe._fire, NULL, __ATOMIC_RELEASE);
	if (!provider->link)
		return;
	*provider->link = provider->next;
	if (provider->next)
		provider->next->link = provider->link;
	provider->next = NULL;
	provider->link = NULL;
}

/*
 * sdt_observe_begin begins to record to memory the fires that the patterns select, also those of
 * providers that are loaded later. It returns -1 if there is no memory for that.
 */
int sdt_observe_begin(int index, const struct sdt_memory *memory, const struct sdt_patterns *patterns)
{
	struct sdt_sink *sink = &sdt_sinks[index];

	if (!sink->writer)
		__atomic_store_n(&sink->writer, sdt_writer_make(), __ATOMIC_RELAXED);
	if (!sink->writer || sdt_writer_begin(sink->writer, memory) != 0)
		return -1;
	sink->patterns = patterns;
	sink->epoch = ++last_epoch;
	for (struct sdt_provider *p = loaded_providers; p; p = p->next) {
		if (reserve_observations(p) == 0)
			continue;
		sdt_observe_end(index);
		return -1;
	}
	for (struct sdt_provider *p = loaded_providers; p; p = p->next) {
		observe_provider(sink, p);
		move_probes(p);
	}
	sdt_writer_start(sink->writer);
	return 0;
}

/*
 * sdt_observe_end ends a recording, or what sdt_observe_forked has kept of one. When it has returned
 * true, no fire is in the memory or will be; after false, the memory must stay.
 */
bool sdt_observe_end(int index)
{
	struct sdt_sink *sink = &sdt_sinks[index];
	bool quiet = !sink->epoch || sdt_writer_stop(sink->writer);

	sink->epoch = 0;
	sink->patterns = NULL;
	if (!quiet)
		__atomic_store_n(&sink->writer, NULL, __ATOMIC_RELAXED); /* a fire is in it for good */
	for (struct sdt_provider *p = loaded_providers; p; p = p->next) {
		if (!p->observed)
			continue;
		observe_provider(sink, p);
		move_probes(p);
	}
	return quiet;
}

/* sdt_observe_drop counts events of a sink that are lost. */
void sdt_observe_drop(int index, uint64_t count)
{
	if (sdt_sinks[index].epoch)
		sdt_writer_drop(sdt_sinks[index].writer, count);
}

/*
 * sdt_observe_forked ends all recordings in a forked child, which has no part in them. The probes
 * stay enabled that the sinks in `kept` had. It calls only functions that a signal handler may
 * call.
 */
void sdt_observe_forked(uint32_t kept)
{
	sdt_thread_forked();
	for (int i = 0; i < SDT_SINKS; i++) {
		if (sdt_sinks[i].writer)
			sdt_writer_forget(sdt_sinks[i].writer);
		sdt_sinks[i].epoch = 0;
		sdt_sinks[i].patterns = NULL;
	}
	for (struct sdt_provider *p = loaded_providers; p; p = p->next) {
		for (size_t k = 0; p->observed && k < p->observed->count; k++)
			p->observed->of[k].sinks &= kept;
		if (p->observed)
			move_probes(p);
	}
}
#endif
