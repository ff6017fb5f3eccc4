/*
 * The memory that the machine has left, and that the control groups of the process still allow.
 * Nothing here allocates memory.
 */
#include "recorder.h"

#include <stdio.h>

/*
 * A hierarchy of control groups, its files, and the field of memory.stat with the contents of files
 * that were not used lately. They count as room, because the kernel takes them back first: in a
 * container that has read a file, there may be no other room.
 */
struct hierarchy {
	const char *mount, *limit, *usage, *inactive;
	const char *root, *not_root; /* each root has the file root, and none the file not_root */
};

static const struct hierarchy unified = {"/sys/fs/cgroup", "memory.max", "memory.current",
					 "\ninactive_file ", "cgroup.controllers", "cgroup.type"};
static const struct hierarchy memory_controller = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
						   "memory.usage_in_bytes", "\ntotal_inactive_file ",
						   "cgroup.sane_behavior", NULL};

/*
 * read_file reads the beginning of a file of a directory, with a NUL after it. Inlined, it would
 * have its path on the stack more than once.
 */
static __attribute__((noinline)) void read_file(const char *directory, const char *name, char *text,
						size_t size)
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

/* has_file reports whether a directory has a file that is not empty. */
static bool has_file(const char *directory, const char *name)
{
	char text[2];

	read_file(directory, name, text, sizeof text);
	return *text != '\0';
}

/*
 * sees_root reports whether the mount has all control groups, not only those that a container
 * sees.
 */
static bool sees_root(const struct hierarchy *hierarchy)
{
	return has_file(hierarchy->mount, hierarchy->root) &&
	       !(hierarchy->not_root && has_file(hierarchy->mount, hierarchy->not_root));
}

/*
 * room_of_line returns the room of the group in a line of /proc/thread-self/cgroup,
 * "ID:CONTROLLERS:PATH". It sets sees_all if the line has all limits of memory.
 */
static uint64_t room_of_line(char *line, bool *sees_all)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;
	const struct hierarchy *hierarchy;

	if (!path)
		return UINT64_MAX;
	*controllers++ = '\0';
	*path++ = '\0';
	if (strcmp(controllers, "memory") == 0)
		hierarchy = &memory_controller;
	else if (strcmp(line, "0") == 0)
		hierarchy = &unified;
	else
		return UINT64_MAX;
	*sees_all = *sees_all || sees_root(hierarchy);
	return least_room(hierarchy, path);
}

uint64_t sdt_memory_room(bool *unknown)
{
	char text[8192];
	bool sees_all = false;
	uint64_t least, machine;

	machine = read_field("/proc", "meminfo", "\nMemAvailable:", &least) ? least << 10 : UINT64_MAX;
	least = machine;
	(void)sdt_file_read("/proc/thread-self/cgroup", text, sizeof text);
	for (char *line = text, *end; *line; line = end) {
		uint64_t room;

		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		room = room_of_line(line, &sees_all);
		least = room < least ? room : least;
	}
	*unknown = least == machine && !sees_all;
	return least;
}
