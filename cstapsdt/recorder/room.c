/*
 * The memory that the machine has left, and that the control groups of the process still allow.
 * Nothing here allocates memory.
 */
#include "../recorder.h"

#include <stdio.h>

/*
 * A hierarchy of control groups, its files, and the field of memory.stat with the contents of files
 * that were not used lately. They count as room, because the kernel takes them back first: in a
 * container that has read a file, there may be no other room.
 */
struct hierarchy {
	const char *mount, *limit, *usage, *inactive;
};

static const struct hierarchy unified = {"/sys/fs/cgroup", "memory.max", "memory.current",
					 "\ninactive_file "};
static const struct hierarchy memory_controller = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
						   "memory.usage_in_bytes", "\ntotal_inactive_file "};

/* read_file reads the beginning of a file of a directory, with a NUL after it. Inlined, it would have its path on the stack more than once. */
static __attribute__((noinline)) void read_file(const char *directory, const char *name, char *text, size_t size)
{
	char path[SDT_PATH_SIZE];

	snprintf(path, sizeof path, "%s/%s", directory, name); /* there is room for each name */
	(void)sdt_file_read(path, text, size);
}

/* parse_number returns the address after the digits. */
static const char *parse_number(const char *text, uint64_t *number)
{
	for (*number = 0; *text >= '0' && *text <= '9'; text++)
		*number = 10 * *number + (uint64_t)(*text - '0');
	return text;
}

/* read_number reads a number, and reports false for anything else, such as "max". */
static bool read_number(const char *directory, const char *name, uint64_t *number)
{
	char line[32];
	const char *end;

	read_file(directory, name, line, sizeof line);
	end = parse_number(line, number);
	return end > line && *end == '\n';
}

/* read_field reads a field of a file that is not the first, and reports whether there is one. */
static bool read_field(const char *directory, const char *name, const char *field, uint64_t *number)
{
	char text[4096];
	const char *at;

	read_file(directory, name, text, sizeof text);
	at = strstr(text, field);
	*number = 0;
	if (!at)
		return false;
	at += strlen(field);
	(void)parse_number(at + strspn(at, " "), number);
	return true;
}

/*
 * least_room returns the smallest room in a control group and those above it. In a container
 * without a namespace of control groups, the path is not below the mount; the container's own
 * group is then at the root.
 */
static uint64_t least_room(const struct hierarchy *hierarchy, const char *group)
{
	char directory[SDT_PATH_SIZE - 64];
	uint64_t least = UINT64_MAX, limit, usage;
	size_t mount = strlen(hierarchy->mount);
	char *slash;

	if (snprintf(directory, sizeof directory, "%s%s", hierarchy->mount, group) >=
	    (int)sizeof directory)
		directory[mount] = '\0';
	for (;;) {
		if (read_number(directory, hierarchy->limit, &limit) &&
		    read_number(directory, hierarchy->usage, &usage)) {
			uint64_t inactive, room;

			(void)read_field(directory, "memory.stat", hierarchy->inactive, &inactive);
			usage -= inactive < usage ? inactive : usage;
			room = limit > usage ? limit - usage : 0;
			least = room < least ? room : least;
		}
		slash = strrchr(directory, '/');
		if (!slash || slash < directory + mount)
			return least;
		*slash = '\0';
	}
}

/* room_of_line returns the room of the group in a line of /proc/thread-self/cgroup, "ID:CONTROLLERS:PATH". */
static uint64_t room_of_line(char *line)
{
	char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return UINT64_MAX;
	*controllers++ = '\0';
	*path++ = '\0';
	if (strcmp(line, "0") == 0)
		return least_room(&unified, path);
	if (strcmp(controllers, "memory") == 0)
		return least_room(&memory_controller, path);
	return UINT64_MAX;
}

uint64_t sdt_memory_room(void)
{
	char text[8192];
	uint64_t least;

	least = read_field("/proc", "meminfo", "\nMemAvailable:", &least) ? least << 10 : UINT64_MAX;
	(void)sdt_file_read("/proc/thread-self/cgroup", text, sizeof text);
	for (char *line = text, *end; *line; line = end) {
		uint64_t room;

		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		room = room_of_line(line);
		least = room < least ? room : least;
	}
	return least;
}
