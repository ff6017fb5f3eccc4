/*
 * The loaded providers, and the recordings of their fires. A recorded probe has the address of its
 * slot's entry, which reads as patched, so that an idle fire has nothing more to test.
 */
#include "recorder.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sdt_provider *loaded_providers;
struct sdt_sink sdt_sinks[SDT_SINKS];

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
		if (sdt_sinks[i].active)
			return true;
	return false;
}

static void describe_records(struct sdt_observation *o, const struct sdt_probe *probe)
{
	o->probe = probe;
	o->count = (uint8_t)probe->count;
	o->size = (uint32_t)(SDT_RECORD_HEAD_BYTES + 8 * (uint64_t)o->count);
	for (int i = 0; i < o->count; i++)
		o->has_texts |= probe->types[i] == sdt_string;
}

/*
 * reserve_observations makes room for all probes of a provider. It returns -1 if there is no
 * memory.
 */
static int reserve_observations(struct sdt_provider *provider)
{
	const struct sdt_probe *probe = sdt_first(provider);
	struct sdt_observation *observed;

	if (provider->observed || provider->count == 0)
		return 0;
	observed = calloc(provider->count, sizeof *observed);
	if (!observed)
		return -1;
	for (size_t i = 0; i < provider->count; i++, probe = sdt_next(probe))
		describe_records(&observed[i], probe);
	__atomic_store_n(&provider->observed, observed, __ATOMIC_RELEASE);
	return 0;
}

/* set_sinks sets the sinks of a probe, and finds the only one. */
static void set_sinks(struct sdt_observation *o, uint32_t sinks)
{
	struct sdt_writer *only = NULL;

	if (sinks && !(sinks & (sinks - 1)))
		only = sdt_sinks[__builtin_ctz(sinks)].writer;
	__atomic_store_n(&o->sinks, sinks, __ATOMIC_RELEASE);
	__atomic_store_n(&o->only, only, __ATOMIC_RELEASE);
}

/* number_probe gives a probe its number in a sink. Probes of one name share a number. */
static void number_probe(const struct sdt_sink *sink, struct sdt_provider *provider, size_t index)
{
	int i = (int)(sink - sdt_sinks);
	struct sdt_observation *o = &provider->observed[index];
	const struct sdt_probe *first = sdt_names_find(&provider->names, o->probe->name);

	if (sink->patterns && !sdt_patterns_select(sink->patterns, provider->name, o->probe->name))
		return;
	__atomic_store_n(&o->numbers[i],
			 first->index == index ? sdt_writer_add(sink->writer, provider, o->probe)
					       : provider->observed[first->index].numbers[i],
			 __ATOMIC_RELAXED);
	set_sinks(o, o->sinks | UINT32_C(1) << i);
}

/*
 * observe_provider adds the probes of a provider to a sink, or removes them if the sink is
 * not active.
 */
static void observe_provider(const struct sdt_sink *sink, struct sdt_provider *provider)
{
	int i = (int)(sink - sdt_sinks);

	for (size_t k = 0; provider->observed && k < provider->count; k++) {
		struct sdt_observation *o = &provider->observed[k];

		set_sinks(o, o->sinks & ~(UINT32_C(1) << i));
		/*
		 * A fire may have read the bit before, and then finds that the sink is in use
		 * again.
		 */
		__atomic_store_n(&o->numbers[i], SDT_NOT_ASKED, __ATOMIC_RELAXED);
		if (sink->active)
			number_probe(sink, provider, k);
	}
}

/*
 * move_probes gives each probe of a provider the address of its site, or of its slot's entry if it
 * is recorded.
 */
static void move_probes(struct sdt_provider *provider)
{
	const struct sdt_observation *o = provider->observed;
	size_t entry = SDT_SLOT - sdt_arch_find(SDT_HOST_ARCH)->entry_size;
	uintptr_t at = provider->sites;

	for (SDTProbeList_t *p = provider->api.probes; p; p = p->next, at += SDT_SLOT) {
		bool recorded = o && o++->sinks;

		__atomic_store_n(&p->probe._fire, (void *)(recorded ? at + entry : at), __ATOMIC_RELEASE);
	}
}

/*
 * link_provider and unlink_provider store in an order such that a provider that a forked child does
 * not find in the list has no link there. sdt_observe_forked sets the links of the others.
 */
static void link_provider(struct sdt_provider *provider)
{
	provider->next = loaded_providers;
	__atomic_store_n(&loaded_providers, provider, __ATOMIC_RELEASE);
	__atomic_store_n(&provider->link, &loaded_providers, __ATOMIC_RELEASE);
	if (provider->next)
		provider->next->link = &provider->next;
}

static void unlink_provider(struct sdt_provider *provider)
{
	struct sdt_provider **link = provider->link;

	provider->link = NULL;
	__atomic_store_n(link, provider->next, __ATOMIC_RELEASE);
	if (provider->next)
		provider->next->link = link;
}

/* sdt_observe_load publishes the sites of a provider. It returns -1 if there is no memory. */
int sdt_observe_load(struct sdt_provider *provider, uintptr_t sites)
{
	bool again = provider->observed; /* copies of its probes may then be recorded */
	int status = 0;

	sdt_observe_lock();
	free(provider->observed); /* of the previous load: the probes get the same numbers again */
	provider->observed = NULL;
	if (again || is_observed())
		status = reserve_observations(provider);
	if (status == 0) {
		provider->sites = sites;
		for (int i = 0; i < SDT_SINKS; i++)
			observe_provider(&sdt_sinks[i], provider);
		link_provider(provider);
		move_probes(provider);
	}
	sdt_observe_unlock();
	return status;
}

/* sdt_observe_unload hides the sites of a provider. */
void sdt_observe_unload(struct sdt_provider *provider)
{
	sdt_observe_lock();
	for (SDTProbeList_t *p = provider->api.probes; p; p = p->next)
		__atomic_store_n(&p->probe._fire, NULL, __ATOMIC_RELEASE);
	if (provider->link) /* its load has not failed */
		unlink_provider(provider);
	sdt_observe_unlock();
}

/*
 * sdt_observe_begin begins to record the fires that the patterns select to memory, including
 * fires of providers that are loaded later. It returns -1 if there is no memory for that.
 */
int sdt_observe_begin(int index, const struct sdt_memory *memory,
		      const struct sdt_patterns *patterns)
{
	struct sdt_sink *sink = &sdt_sinks[index];

	if (!sink->writer)
		__atomic_store_n(&sink->writer, sdt_writer_make(), __ATOMIC_RELAXED);
	if (!sink->writer || sdt_writer_begin(sink->writer, memory, index) != 0)
		return -1;
	sink->patterns = patterns;
	sink->active = true;
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
 * sdt_observe_end ends a recording, or the rest of one that sdt_observe_forked has kept. After it
 * returns true, no fire writes to the memory, now or later; after false, the memory must stay.
 */
bool sdt_observe_end(int index)
{
	struct sdt_sink *sink = &sdt_sinks[index];
	bool quiet = !sink->active || sdt_writer_stop(sink->writer);

	sink->active = false;
	sink->patterns = NULL;
	if (!quiet)
		__atomic_store_n(&sink->writer, NULL, __ATOMIC_RELAXED); /* a fire in it never ends */
	for (struct sdt_provider *p = loaded_providers; p; p = p->next) {
		observe_provider(sink, p);
		move_probes(p);
	}
	return quiet;
}

/* sdt_observe_drop counts lost events of a sink. */
void sdt_observe_drop(int index, uint64_t count)
{
	if (sdt_sinks[index].active)
		sdt_writer_drop(sdt_sinks[index].writer, count);
}

/*
 * sdt_observe_forked ends all recordings in a forked child, which does not share them. All probes
 * stay enabled for the sinks in `kept`, which had all probes. It calls only functions that a signal
 * handler may call.
 *
 * Another thread of the parent may have held the lock, perhaps while it waited for a disk, and a
 * fork does not wait for it. Whatever that thread was doing, the list of providers is consistent in
 * the direction of `next`, and everything else is set here.
 */
void sdt_observe_forked(uint32_t kept)
{
	pthread_mutex_init(&lock, NULL);
	sdt_thread_forked();
	for (int i = 0; i < SDT_SINKS; i++) {
		if (sdt_sinks[i].writer)
			sdt_writer_forget(sdt_sinks[i].writer);
		sdt_sinks[i].active = false;
		sdt_sinks[i].patterns = NULL;
	}
	for (struct sdt_provider **link = &loaded_providers, *p; (p = *link); link = &p->next) {
		p->link = link;
		for (size_t k = 0; p->observed && k < p->count; k++)
			set_sinks(&p->observed[k], kept);
		move_probes(p);
	}
}
