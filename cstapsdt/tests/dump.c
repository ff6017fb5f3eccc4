/*
 * dump ARCH NOP PROVIDER PROBE[:TYPE[=NAME]...]... writes the image to standard output,
 * for tests that read it with other programs. Either all arguments of a probe have names,
 * or none.
 */
#include "../private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_probe(SDTProvider_t *provider, char *word)
{
	SDTArgument_t arguments[SDT_MAX_ARGUMENTS];
	ArgType_t types[SDT_MAX_ARGUMENTS];
	char *name = strtok(word, ":"), *type, *equals;
	bool named = false;
	int count = 0;

	while ((type = strtok(NULL, ":")) && count < SDT_MAX_ARGUMENTS) {
		equals = strchr(type, '=');
		named |= equals != NULL;
		types[count] = (ArgType_t)atoi(type);
		arguments[count] = (SDTArgument_t){equals ? equals + 1 : NULL, types[count]};
		count++;
	}
	if (named)
		return providerAddNamedProbe(provider, name, count, arguments) != NULL;
	return providerAddProbeV(provider, name, count, types) != NULL;
}

int main(int argc, char **argv)
{
	SDTProvider_t *provider;
	void *image = NULL;
	size_t size;
	int status = 1;

	if (argc < 4)
		return 2;
	provider = providerInit(argv[3]);
	for (int i = 4; i < argc; i++)
		if (!add_probe(provider, argv[i]))
			goto out;
	if (sdt_provider_image(provider, argv[1], argv[2], NULL, &image, &size) == 0)
		status = fwrite(image, 1, size, stdout) != size;
out:
	if (status)
		fprintf(stderr, "dump: %s\n", providerError(provider));
	free(image);
	providerDestroy(provider);
	return status;
}
