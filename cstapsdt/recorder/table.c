/*
 * The table of probes. The writer keeps a copy of its own, because others may write to the table in
 * the recording.
 */
#include "writer.h"

/*
 * The table takes a 16th of the chunks, within these limits. An entry has at least 24 bytes, so
 * that the index has free places.
 */
enum { MIN_TABLE = 60 << 10, MAX_TABLE = 1020 << 10, BYTES_OF_PLACE = 16 };

/* sdt_table_size returns a multiple of the size of a page. */
uint64_t sdt_table_size(uint64_t chunks)
{
	uint64_t size = chunks * SDT_CHUNK_BYTES / 16;

	if (size < MIN_TABLE)
		return MIN_TABLE;
	return size > MAX_TABLE ? MAX_TABLE : size & ~(uint64_t)4095;
}

/*
 * find_place finds an entry that is equal to the entry after the last one. It returns the entry's
 * place in the index, or the place where it belongs.
 */
static struct sdt_place *find_place(const struct sdt_writer *writer, const unsigned char *entry,
				    size_t size)
{
	const uint64_t places = writer->table_bytes / BYTES_OF_PLACE;
	uint32_t hash = 2166136261; /* FNV-1a */
	struct sdt_place *place;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ entry[i]) * 16777619;
	for (uint64_t i = hash % places;; i = (i + 1) % places) {
		const unsigned char *known;

		place = &writer->index[i];
		if (!place->words)
			return place;
		known = writer->table + 8 * (uint64_t)(place->words - 1);
		if (sdt_get_u32(known) == size && memcmp(known, entry, size) == 0)
			return place;
	}
}

/*
 * sdt_writer_add adds a probe to the table and returns its number, or SDT_NO_NUMBER if there is no
 * room for it. Probes with the same description are one probe, because a program may define its
 * providers repeatedly. The lock of observe.c is held.
 */
uint32_t sdt_writer_add(struct sdt_writer *writer, const struct sdt_provider *provider,
			const struct sdt_probe *probe)
{
	/*
	 * The copy has room for another table: an entry is completed before it is known whether it is
	 * needed.
	 */
	unsigned char *entry = writer->table + writer->table_used;
	size_t size = sdt_describe_probe(provider, probe, entry, (size_t)writer->table_bytes);
	struct sdt_place *place;

	if (size == 0)
		return SDT_NO_NUMBER;
	place = find_place(writer, entry, size);
	if (place->words)
		return place->number;
	if (size > writer->table_bytes - writer->table_used)
		return SDT_NO_NUMBER;
	*place = (struct sdt_place){(uint32_t)(writer->table_used / 8) + 1, writer->probes};
	memcpy(writer->memory.bytes + SDT_HEAD_BYTES + writer->table_used, entry, size);
	writer->table_used += size;
	sdt_store64(writer->memory.bytes + SDT_OFF_TABLE_USED, writer->table_used);
	return writer->probes++;
}
