/* A table of names: a hash table with open addressing, at most half full, that never shrinks. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_name(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	return hash ^ hash >> 32;
}

static struct sdt_name *find_slot(const struct sdt_names *names, const char *name)
{
	size_t i = (size_t)hash_name(name) & (names->size - 1);

	while (names->slots[i].name && strcmp(names->slots[i].name, name) != 0)
		i = (i + 1) & (names->size - 1);
	return &names->slots[i];
}

struct sdt_probe *sdt_names_find(const struct sdt_names *names, const char *name)
{
	return names->size ? find_slot(names, name)->probe : NULL;
}

/* sdt_names_reserve makes room for one more name, so that sdt_names_add cannot fail. */
bool sdt_names_reserve(struct sdt_names *names)
{
	struct sdt_names grown = {.used = names->used};

	if (names->used < names->size / 2)
		return true;
	if (names->size > SIZE_MAX / 2 / sizeof *names->slots)
		return false;
	grown.size = names->size ? 2 * names->size : 8;
	grown.slots = calloc(grown.size, sizeof *grown.slots);
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < names->size; i++)
		if (names->slots[i].name)
			*find_slot(&grown, names->slots[i].name) = names->slots[i];
	free(names->slots);
	*names = grown;
	return true;
}

/*
 * sdt_names_add adds a name, unless the table already has it, and returns the name's
 * entry.
 */
const struct sdt_name *sdt_names_add(struct sdt_names *names, const struct sdt_name *name)
{
	struct sdt_name *slot = find_slot(names, name->name);

	if (!slot->name) {
		*slot = *name;
		names->used++;
	}
	return slot;
}
