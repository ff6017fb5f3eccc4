//go:build ignore

/*
 * demo PROVIDER PROBE... adds the probes, each with the arguments count, a uint64, and
 * negative, an int64, and fires all of them every three seconds until it is killed. With
 * -f the image is in a file in /tmp. With -t MS the pause is MS milliseconds.
 */
#define _GNU_SOURCE
#include "libstapsdt.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;

static void stop_loop(int signal)
{
	(void)signal;
	stopped = 1;
}

static int usage(void)
{
	fprintf(stderr, "usage: demo [-f] [-t MS] PROVIDER PROBE...\n");
	return 2;
}

static void fire_probes(SDTProvider_t *provider, uint64_t count)
{
	for (SDTProbeList_t *list = provider->probes; list; list = list->next) {
		printf("%s:%s(%" PRIu64 ", %" PRId64 ")%s\n", provider->name, list->probe.name,
		       count, -(int64_t)count, probeIsEnabled(&list->probe) ? " traced" : "");
		probeFire(&list->probe, count, -(int64_t)count);
	}
	fflush(stdout);
}

static int run_provider(SDTProvider_t *provider, char **names, long pause)
{
	static const SDTArgument_t arguments[] = {{"count", uint64}, {"negative", int64}};
	struct timespec wait = {pause / 1000, pause % 1000 * 1000000};

	for (; *names; names++)
		if (!providerAddNamedProbe(provider, *names, 2, arguments))
			return -1;
	if (providerLoad(provider) != 0)
		return -1;
	printf("loaded as %s; in another terminal:\n"
	       "bpftrace -p %d -e 'usdt:*:%s:%s { printf(\"%%d %%d\\n\", arg0, arg1); }'\n",
	       provider->_filename, (int)getpid(), provider->name, provider->probes->probe.name);
	for (uint64_t count = 1; !stopped; count++) {
		fire_probes(provider, count);
		nanosleep(&wait, NULL);
	}
	return providerUnload(provider);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = stop_loop};
	MemFDOption_t memory = memfd_enabled;
	SDTProvider_t *provider;
	long pause = 3000;
	int option, status;

	while ((option = getopt(argc, argv, "ft:")) != -1) {
		if (option == 'f')
			memory = memfd_disabled;
		else if (option == 't')
			pause = atol(optarg);
		else
			return usage();
	}
	if (argc - optind < 2)
		return usage();
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	provider = providerInit(argv[optind]);
	if (!provider)
		return usage();
	providerUseMemfd(provider, memory);
	status = run_provider(provider, argv + optind + 1, pause);
	if (status != 0)
		fprintf(stderr, "demo: %s\n", providerError(provider));
	providerDestroy(provider);
	return status ? 1 : 0;
}
