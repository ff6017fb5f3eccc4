/*
 * The C program that the table compares with. It speaks the language of
 * ../subject: for each line "ROW N" it answers with the nanoseconds that N
 * fires took, or a load of N probes. STAPSDT_SITE chooses the nop of the
 * library's probes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/sdt.h>

#include "../rows.h"
#include "libstapsdt.h"

static SDTProvider_t *provider;
static SDTProbe_t *probe, *text_probe;

static void die(const SDTProvider_t *failed)
{
	fprintf(stderr, "%s\n", providerError(failed));
	exit(1);
}

/* sdt.h's site is one nop of one byte, in the loop itself. */
static void sdt(long n)
{
	for (long i = 0; i < n; i++)
		DTRACE_PROBE2(bench, inlined, (uint64_t)i, (int32_t)200);
}

/* A site that is called, by nothing but a call: the floor for any library. */
static void call(long n)
{
	void (*site)(uint64_t, uint64_t) = (void (*)(uint64_t, uint64_t))(uintptr_t)probe->_fire;

	for (long i = 0; i < n; i++)
		site((uint64_t)i, 200);
}

static void fire(long n)
{
	for (long i = 0; i < n; i++)
		probeFire(probe, (uint64_t)i, (uint64_t)200);
}

static void text(long n)
{
	uint64_t string = (uint64_t)(uintptr_t) "0123456789abcdef";

	for (long i = 0; i < n; i++)
		probeFire(text_probe, string, (uint64_t)200);
}

static void enabled(long n)
{
	int on = 0;

	for (long i = 0; i < n; i++)
		on |= probeIsEnabled(probe);
	if (on)
		fputs("a tracer is attached\n", stderr);
}

/*
 * define makes a provider of that many probes, which keeps its image in that place. The image describes the arguments, as
 * Go's does.
 */
static SDTProvider_t *define(long count, MemFDOption_t place)
{
	static const SDTArgument_t arguments[] = {{"id", uint64}, {"status", int32}};
	SDTProvider_t *p = providerInit("benchload");
	char name[32];

	for (long i = 0; i < count; i++) {
		snprintf(name, sizeof name, "probe%06ld", i);
		if (!providerAddNamedProbe(p, name, 2, arguments))
			die(p);
	}
	if (providerUseMemfd(p, place) != 1)
		die(p);
	return p;
}

/* steps loads a provider, unloads it and loads it again, up to a step, and returns what the steps from another one on took. */
static double steps(long count, MemFDOption_t place, int from, int end)
{
	SDTProvider_t *p = define(count, place);
	double start = 0;

	for (int i = 0; i < end; i++) {
		if (i == from)
			start = now();
		if ((i == 1 ? providerUnload(p) : providerLoad(p)) != 0)
			die(p);
	}
	start = now() - start;
	providerDestroy(p);
	return start;
}

static double load_file(long count)
{
	return steps(count, memfd_disabled, 0, 1);
}

static double load_memory(long count)
{
	return steps(count, memfd_enabled, 0, 1);
}

static double unload_file(long count)
{
	return steps(count, memfd_disabled, 1, 2);
}

static double reload_file(long count)
{
	return steps(count, memfd_disabled, 1, 3);
}

/* mapped is how many bytes of this process's addresses that many loaded probes take. */
static double mapped(long count)
{
	SDTProvider_t *p = define(count, memfd_disabled);
	FILE *maps;
	char line[512];
	unsigned long start, end;
	double total = 0;

	if (providerLoad(p) != 0)
		die(p);
	maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, "/benchload-") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			total += (double)(end - start);
	if (maps)
		fclose(maps);
	providerDestroy(p);
	return total;
}

static const struct row rows[] = {
	{"sdt", sdt, NULL},
	{"call", call, NULL},
	{"fire", fire, NULL},
	{"text", text, NULL},
	{"enabled", enabled, NULL},
	{"loadnew", NULL, load_file},
	{"loadmemory", NULL, load_memory},
	{"unload", NULL, unload_file},
	{"reload", NULL, reload_file},
	{"mapped", NULL, mapped},
};

int main(void)
{
	static const SDTArgument_t texts[] = {{"text", sdt_string}, {"n", int32}};
	int status;

	provider = providerInit("bench");
	probe = providerAddProbe(provider, "two", 2, uint64, int32);
	text_probe = providerAddNamedProbe(provider, "text", 2, texts);
	providerUseMemfd(provider, memfd_disabled);
	if (probe == NULL || text_probe == NULL || providerLoad(provider) != 0)
		die(provider);
	status = serve(rows, sizeof rows / sizeof *rows);
	providerDestroy(provider);
	return status;
}
