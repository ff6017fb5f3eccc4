/* Fires a probe of the C library for each line of its input, with its arguments in an array. */
#include <libstapsdt.h>

#include <stdio.h>

int main(void)
{
	static const ArgType_t types[] = {uint64};
	SDTProvider_t *provider = providerInit("lines");
	SDTProbe_t *line = providerAddProbeV(provider, "line__read", 1, types);
	char text[80];

	if (providerLoad(provider) != 0)
		return 1;
	while (fgets(text, sizeof text, stdin)) {
		uint64_t address = (uint64_t)(uintptr_t)text;

		probeFireV(line, &address);
	}
	return 0;
}
