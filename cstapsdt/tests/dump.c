/*
 * dump ARCH SITE PROVIDER PROBE[:TYPE...]... writes the image to the standard
 * output, for tests that read it by other means.
 */
#include "../private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add(SDTProvider_t *provider, char *word)
{
	ArgType_t types[SDT_MAX_ARGUMENTS];
	char *name = strtok(word, ":"), *type;
	int count = 0;

	while ((type = strtok(NULL, ":")) && count < SDT_MAX_ARGUMENTS)
		types[count++] = (ArgType_t)atoi(type);
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
		if (!add(provider, argv[i]))
			goto out;
	if (sdt_provider_image(provider, argv[1], argv[2], &image, &size) == 0)
		status = fwrite(image, 1, size, stdout) != size;
out:
	if (status)
		fprintf(stderr, "dump: %s\n", providerError(provider));
	free(image);
	providerDestroy(provider);
	return status;
}
