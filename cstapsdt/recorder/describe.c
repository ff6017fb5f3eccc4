/*
 * The descriptions of the process and of a probe in a recording. Nothing here allocates
 * memory.
 */
#include "recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* sdt_start_time returns when the process was started, in ticks since the boot. */
uint64_t sdt_start_time(void)
{
	char line[1024];
	uint64_t start = 0;

	for (const char *at = sdt_stat_field("self", line, sizeof line, 22); *at >= '0' && *at <= '9'; at++)
		start = 10 * start + (uint64_t)(*at - '0');
	return start;
}

/* put_boot writes the id of the boot, which is 32 hexadecimal digits with dashes, or zeros. */
static void put_boot(unsigned char *to)
{
	static const char values[] = "0123456789abcdef";
	const char *value;
	char line[64];
	int digits = 0;

	(void)sdt_file_read("/proc/sys/kernel/random/boot_id", line, sizeof line);
	for (const char *at = line; *at && digits < 32; at++) {
		if (!(value = strchr(values, *at)))
			continue;
		to[digits / 2] = (unsigned char)(to[digits / 2] << 4 | (value - values));
		digits++;
	}
}

/*
 * put_executable writes the path of the executable. A path that is too long loses its beginning.
 */
static void put_executable(unsigned char *to, size_t room)
{
	char path[SDT_PATH_SIZE];
	ssize_t length = readlink("/proc/thread-self/exe", path, sizeof path);
	size_t size = length > 0 ? (size_t)length : 0, cut = size > room - 2 ? size - (room - 2) : 0;

	sdt_put_u16(to, size - cut);
	memcpy(to + 2, path + cut, size - cut);
}

/* sdt_describe_process writes the description of this process to a head, which has zeros there. */
void sdt_describe_process(unsigned char *head)
{
	sdt_put_u64(head + SDT_OFF_START, sdt_start_time());
	put_boot(head + SDT_OFF_BOOT);
	put_executable(head + SDT_OFF_EXECUTABLE, SDT_OFF_LATEST - SDT_OFF_EXECUTABLE);
}

enum { UNNAMED_SIZE = 16 };

/* An entry that is being written, up to the end of its room. */
struct entry {
	unsigned char *bytes;
	size_t size, room;
};

static void add_bytes(struct entry *entry, const void *bytes, size_t size)
{
	if (entry->size <= entry->room && size <= entry->room - entry->size)
		memcpy(entry->bytes + entry->size, bytes, size);
	entry->size += size;
}

static void add_number(struct entry *entry, uint32_t number, size_t size)
{
	unsigned char bytes[4];

	sdt_put_u32(bytes, number);
	add_bytes(entry, bytes, size);
}

static size_t cut_length(const char *name)
{
	size_t length = strlen(name);

	return length > UINT16_MAX ? UINT16_MAX : length;
}

/*
 * argument_name returns the name of an argument, and sets *names to the name of the next one.
 * *names is NULL if the arguments have no names; they are then called arg0 and so on.
 */
static const char *argument_name(const char **names, int index, char unnamed[UNNAMED_SIZE])
{
	const char *name = *names;

	if (name) {
		*names += strlen(name) + 1;
		return name;
	}
	snprintf(unnamed, UNNAMED_SIZE, "arg%d", index);
	return unnamed;
}

static void add_argument(struct entry *entry, ArgType_t type, const char *name)
{
	uint32_t kind = (uint32_t)(type == sdt_string ? SDT_KIND_STRING
				   : (int)type < 0	  ? SDT_KIND_INT64
							  : SDT_KIND_UINT64);

	add_number(entry, (uint8_t)type, 1);
	add_number(entry, kind, 1);
	add_number(entry, (uint32_t)cut_length(name), 2);
}

/*
 * sdt_describe_probe writes the entry of a probe in a table of probes, and returns its size, or 0
 * if there is no room for it.
 */
size_t sdt_describe_probe(const struct sdt_provider *provider, const struct sdt_probe *probe,
			  unsigned char *bytes, size_t room)
{
	struct entry entry = {.bytes = bytes, .room = room};
	const struct sdt_probe *first = sdt_names_find(&provider->names, probe->name);
	const char *provider_name = provider->name, *name, *names = first ? first->arguments : NULL;
	int count = probe->count;
	char unnamed[UNNAMED_SIZE];

	add_number(&entry, 0, 4); /* its size */
	add_number(&entry, 0, 4); /* 0: the process in the head */
	add_number(&entry, (uint32_t)cut_length(provider_name), 2);
	add_number(&entry, (uint32_t)cut_length(probe->name), 2);
	add_number(&entry, (uint32_t)count, 4);
	for (int i = 0; i < count; i++)
		add_argument(&entry, probe->types[i], argument_name(&names, i, unnamed));
	add_bytes(&entry, provider_name, cut_length(provider_name));
	add_bytes(&entry, probe->name, cut_length(probe->name));
	names = first ? first->arguments : NULL;
	for (int i = 0; i < count; i++) {
		name = argument_name(&names, i, unnamed);
		add_bytes(&entry, name, cut_length(name));
	}
	while (entry.size % 8 != 0)
		add_number(&entry, 0, 1);
	if (entry.size > room)
		return 0;
	sdt_put_u32(bytes, entry.size);
	return entry.size;
}
