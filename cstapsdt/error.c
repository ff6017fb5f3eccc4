/* The error of the last call on a provider: its code and its line. */
#include "private.h"

#include <unistd.h>

static void set_error(SDTProvider_t *provider, SDTError_t code, char *error)
{
	provider->errno = code;
	provider->error = error;
}

static SDTError_t get_code(const SDTProvider_t *provider)
{
	return provider->errno;
}

/* From here on, `errno` is the system's, because these headers make it a macro. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void sdt_clear(SDTProvider_t *provider)
{
	free(provider->error);
	set_error(provider, noError, NULL);
}

static char *format_line(int reason, const char *format, va_list values)
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

bool sdt_is_debugged(void)
{
	const char *debug = secure_getenv("STAPSDT_DEBUG");

	return debug && strcmp(debug, "1") == 0;
}

int sdt_fail(SDTProvider_t *provider, SDTError_t code, const char *format, ...)
{
	int reason = errno;
	va_list values;
	char *line;

	va_start(values, format);
	line = format_line(reason, format, values);
	va_end(values);
	free(provider->error);
	set_error(provider, code, line);
	if (line && sdt_is_debugged())
		dprintf(STDERR_FILENO, "stapsdt: %s\n", line);
	return -1;
}

/*
 * sdt_fail_line writes the error line of a recording or of the socket, and returns -1. In the
 * format, %m is the system's reason.
 */
int sdt_fail_line(char *line, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(line, SDT_LINE_SIZE, format, values);
	va_end(values);
	return -1;
}

/* sdt_copy_text copies two texts, one after the other, and returns their length, like snprintf. */
size_t sdt_copy_text(char *to, size_t size, const char *what, const char *text)
{
	return (size_t)snprintf(to, to ? size : 0, "%s%s", what, text);
}

SDTError_t providerErrno(const SDTProvider_t *provider)
{
	return provider ? get_code(provider) : elfCreationError;
}

const char *providerError(const SDTProvider_t *provider)
{
	if (!provider)
		return "no provider";
	if (provider->error)
		return provider->error;
	return get_code(provider) == noError ? "" : "out of memory";
}
