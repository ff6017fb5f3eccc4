/* A buffer of bytes that grows. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

/* sdt_buffer_extend adds size bytes for the caller to fill. It returns NULL if memory is short. */
void *sdt_buffer_extend(struct sdt_buffer *buffer, size_t size)
{
	unsigned char *data = buffer->data;
	size_t need, capacity;

	if (buffer->failed || __builtin_add_overflow(buffer->size, size, &need) ||
	    need > SIZE_MAX / 2)
		goto fail;
	if (need > buffer->capacity) {
		capacity = 2 * buffer->capacity > need ? 2 * buffer->capacity : need;
		data = realloc(buffer->data, capacity);
		if (!data)
			goto fail;
		buffer->data = data;
		buffer->capacity = capacity;
	}
	data += buffer->size;
	buffer->size = need;
	return data;
fail:
	buffer->failed = true;
	return NULL;
}

void sdt_buffer_add(struct sdt_buffer *buffer, const void *bytes, size_t size)
{
	void *out = sdt_buffer_extend(buffer, size);

	if (out && size)
		memcpy(out, bytes, size);
}

void sdt_buffer_fill(struct sdt_buffer *buffer, unsigned char byte, size_t size)
{
	void *out = sdt_buffer_extend(buffer, size);

	if (out && size)
		memset(out, byte, size);
}

void sdt_buffer_free(struct sdt_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct sdt_buffer){0};
}
