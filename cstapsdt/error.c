#include "private.h"

static void set(SDTProvider_t *provider, SDTError_t code, char *error)
{
	provider->errno = code;
	provider->error = error;
}

static SDTError_t get(const SDTProvider_t *provider)
{
	return provider->errno;
}

/* From here on `errno` is the system's: these headers make a macro of it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void sdt_clear(SDTProvider_t *provider)
{
	free(provider->error);
	set(provider, noError, NULL);
}

static char *vformat(int reason, const char *format, va_list values)
{
	va_list again;
	char *line = NULL;
	int size;

	va_copy(again, values);
	errno = reason;
	size = vsnprintf(NULL, 0, format, values);
	if (size >= 0)
		line = malloc((size_t)size + 1);
	errno = reason;
	if (line)
		vsnprintf(line, (size_t)size + 1, format, again);
	va_end(again);
	return line;
}

int sdt_fail(SDTProvider_t *provider, SDTError_t code, const char *format, ...)
{
	int reason = errno;
	va_list values;
	char *line;

	va_start(values, format);
	line = vformat(reason, format, values);
	va_end(values);
	free(provider->error);
	set(provider, code, line);
	return -1;
}

SDTError_t providerErrno(const SDTProvider_t *provider)
{
	return provider ? get(provider) : elfCreationError;
}

const char *providerError(const SDTProvider_t *provider)
{
	if (!provider)
		return "no provider";
	if (provider->error)
		return provider->error;
	return get(provider) == noError ? "" : "out of memory";
}
