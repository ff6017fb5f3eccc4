/*
 * lines counts the lines and bytes of its input, as wc does, and fires a probe for
 * each line. It shows the complete life of a provider in C.
 *
 *	make && yes hello | head -n 100000000 | ./lines
 *
 * In another terminal, as root, a histogram of the lengths of the lines:
 *
 *	bpftrace -p $(pgrep -x lines) lengths.bt
 */
#define _GNU_SOURCE
#include <libstapsdt.h>

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	static const SDTArgument_t arguments[] = {{"text", sdt_string}, {"length", uint32}, {"number", uint64}};
	SDTProvider_t *provider = providerInit("lines");
	SDTProbe_t *line = providerAddNamedProbe(provider, "line__read", 3, arguments);
	size_t capacity = 0, bytes = 0, lines = 0;
	char *text = NULL;
	ssize_t size;

	/* In a file, because bpftrace -p from 0.25 on does not find probes in memory. */
	providerUseMemfd(provider, memfd_disabled);
	if (providerLoad(provider) != 0)
		fprintf(stderr, "no probes: %s\n", providerError(provider)); /* and continue */

	while ((size = getline(&text, &capacity, stdin)) > 0) {
		lines++;
		bytes += (size_t)size;
		/* The text of the line, which a tracer reads while the probe fires, its length and number. */
		probeFire(line, (uint64_t)(uintptr_t)text, (uint64_t)size, (uint64_t)lines);
	}
	printf("%zu %zu\n", lines, bytes);
	free(text);
	providerDestroy(provider);
	return 0;
}
