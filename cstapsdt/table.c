/* The table of probes, of which the writer keeps a copy of its own: others may write to that of the recording. */
#ifndef SDT_IN_GO
#include "writer.h"

/* The table takes a 16th of the chunks, within these limits. Up to MANY_PROBES are compared. */
enum { MIN_TABLE = 60 << 10, MAX_TABLE = 1020 << 10, MANY_PROBES = 512 };

/* sdt_table_size returns a multiple of the size of a page. */
uint64_t sdt_table_size(uint64_t chunks)
{
	uint64_t size = chunks * SDT_CHUNK_BYTES / 16;

	if (size < MIN_TABLE)
		return MIN_TABLE;
	return size > MAX_TABLE ? MAX_TABLE : size & ~(uint64_t)4095;
}

/* find_entry returns the number of an entry that is equal to one after the last, or SDT_NO_NUMBER. */
static uint32_t find_entry(const struct sdt_writer *writer, const unsigned char *entry, size_t size)
{
	const unsigned char *at = writer->table;

	for (uint32_t number = 0; number < writer->probes; number++, at += sdt_get_u32(at))
		if (sdt_get_u32(at) == size && memcmp(at, entry, size) == 0)
			return number;
	return SDT_NO_NUMBER;
}

/*
 * sdt_writer_add adds a probe to the table and returns its number, or SDT_NO_NUMBER if there is
 * no room for it. A probe that is described as another is the same one, because a program may define its providers
 * repeatedly. To look for it takes too long among very many, as long as there is room. The lock of observe.c is held.
 */
uint32_t sdt_writer_add(struct sdt_writer *writer, const struct sdt_provider *provider,
			const struct sdt_probe *probe)
{
	/* The copy has room for another table, so that an entry is complete before it is known whether it is needed. */
	unsigned char *entry = writer->table + writer->table_used;
	size_t size = sdt_describe_probe(provider, probe, entry, (size_t)writer->table_bytes);
	bool has_room = size <= writer->table_bytes - writer->table_used;

	if (size == 0)
		return SDT_NO_NUMBER;
	if (!has_room || writer->probes < MANY_PROBES || writer->table_used > writer->table_bytes / 4) {
		uint32_t number = find_entry(writer, entry, size);

		if (number != SDT_NO_NUMBER)
			return number;
	}
	if (!has_room)
		return SDT_NO_NUMBER;
	memcpy(writer->memory.bytes + SDT_HEAD_BYTES + writer->table_used, entry, size);
	writer->table_used += size;
	sdt_store64(writer->memory.bytes + SDT_OFF_TABLE_USED, writer->table_used);
	return writer->probes++;
}
#endif
