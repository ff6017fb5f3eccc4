/* The image of a provider: the contents of its sections, which elf.c lays out and writes. */
#include "private.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_symbol_name(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

static void fill_hash(const struct sdt_provider *provider, struct sdt_image *image)
{
	const struct sdt_arch *arch = image->arch;
	uint32_t buckets = provider->count ? (uint32_t)provider->count : 1;
	uint32_t chains = (uint32_t)provider->count + 1, i = 0;
	size_t size = (2 + (size_t)buckets + chains) * arch->hash;
	unsigned char *bucket = sdt_buffer_extend(&image->content[SDT_HASH], size), *chain;
	/* A value fits into 4 bytes; on a big-endian machine they are the last of 8. */
	size_t low = arch->hash == 8 && sdt_big_endian(arch) ? 4 : 0;

	if (!bucket)
		return;
	memset(bucket, 0, size);
	bucket = sdt_put(arch, bucket, arch->hash, buckets);
	bucket = sdt_put(arch, bucket, arch->hash, chains);
	chain = bucket + buckets * arch->hash;
	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p)) {
		uint32_t at = hash_symbol_name(p->name) % buckets;
		unsigned char *head = bucket + at * arch->hash + low;

		memcpy(chain + ++i * arch->hash + low, head, sizeof i);
		sdt_put32(arch, head, i);
	}
}

/* The offsets of a symbol's members. Both classes have the same members in a different order. */
struct symbol {
	size_t size, info, index, value, extent;
};

static const struct symbol *symbol_of(const struct sdt_arch *arch)
{
	static const struct symbol in32 = {
		sizeof(Elf32_Sym), offsetof(Elf32_Sym, st_info), offsetof(Elf32_Sym, st_shndx),
		offsetof(Elf32_Sym, st_value), offsetof(Elf32_Sym, st_size)};
	static const struct symbol in64 = {
		sizeof(Elf64_Sym), offsetof(Elf64_Sym, st_info), offsetof(Elf64_Sym, st_shndx),
		offsetof(Elf64_Sym, st_value), offsetof(Elf64_Sym, st_size)};

	return arch->class == ELFCLASS32 ? &in32 : &in64;
}

static void fill_symbols(const struct sdt_provider *provider, struct sdt_image *image)
{
	const struct sdt_arch *arch = image->arch;
	const struct symbol *in = symbol_of(arch);
	struct sdt_buffer *strings = &image->content[SDT_DYNSTR];
	size_t size = (provider->count + 1) * in->size;
	unsigned char *symbol = sdt_buffer_extend(&image->content[SDT_DYNSYM], size);

	sdt_buffer_fill(strings, 0, 1);
	if (!symbol)
		return;
	memset(symbol, 0, size);
	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p)) {
		symbol += in->size;
		sdt_put32(arch, symbol, (uint32_t)strings->size);
		symbol[in->info] = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
		symbol[in->index + sdt_big_endian(arch)] = SDT_TEXT;
		sdt_put(arch, symbol + in->extent, sdt_word_size(arch),
			image->nop->size + arch->ret_size);
		sdt_buffer_add(strings, p->name, p->name_size);
	}
	if (strings->size > UINT32_MAX)
		strings->failed = true;
}

static void fill_text(const struct sdt_provider *provider, struct sdt_image *image)
{
	const struct sdt_arch *arch = image->arch;
	const struct sdt_nop *nop = image->nop;
	unsigned char slot[SDT_SLOT], *out;

	memset(slot, arch->fill, sizeof slot);
	memcpy(slot, nop->code, nop->size);
	memcpy(slot + nop->size, arch->ret, arch->ret_size);
	memcpy(slot + sizeof slot - arch->entry_size, arch->entry, arch->entry_size);
	out = sdt_buffer_extend(&image->content[SDT_TEXT], provider->count * sizeof slot);
	if (!out)
		return;
	for (size_t i = 0; i < provider->count; i++)
		memcpy(out + i * sizeof slot, slot, sizeof slot);
}

static void fill_notes(const struct sdt_provider *provider, struct sdt_image *image)
{
	struct sdt_buffer *notes = &image->content[SDT_NOTES];
	struct sdt_operands operands;
	int count = 0;

	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p))
		if (p->count > count)
			count = p->count;
	sdt_arch_operands(image->arch, &operands, (size_t)count);
	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p))
		sdt_note_add(notes, image->arch, &operands, provider, p);
}

static void fill_build_id(struct sdt_image *image)
{
	struct sdt_buffer *out = &image->content[SDT_BUILD_ID];
	unsigned char *note = sdt_buffer_extend(out, SDT_ID_OFFSET + SDT_ID_SIZE);

	if (!note)
		return;
	memset(note, 0, SDT_ID_OFFSET + SDT_ID_SIZE);
	note = sdt_put32(image->arch, note, 4);
	note = sdt_put32(image->arch, note, SDT_ID_SIZE);
	note = sdt_put32(image->arch, note, NT_GNU_BUILD_ID);
	memcpy(note, "GNU", 4);
}

/* The dynamic section: DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL. */
#define DYNAMIC_ENTRIES 6

static void write_dynamic(struct sdt_image *image)
{
	const uint64_t words[2 * DYNAMIC_ENTRIES] = {
		DT_HASH, image->addr[SDT_HASH],
		DT_STRTAB, image->addr[SDT_DYNSTR],
		DT_SYMTAB, image->addr[SDT_DYNSYM],
		DT_STRSZ, image->content[SDT_DYNSTR].size,
		DT_SYMENT, symbol_of(image->arch)->size,
		DT_NULL, 0,
	};
	unsigned char *out = image->content[SDT_DYNAMIC].data;

	for (size_t i = 0; i < 2 * DYNAMIC_ENTRIES; i++)
		out = sdt_put(image->arch, out, sdt_word_size(image->arch), words[i]);
}

/* write_addresses completes the sections, once libelf has laid them out. */
static void write_addresses(struct sdt_image *image)
{
	const struct symbol *in = symbol_of(image->arch);
	struct sdt_buffer *symbols = &image->content[SDT_DYNSYM];
	uint64_t site = image->addr[SDT_TEXT];

	for (size_t at = in->size; at < symbols->size; at += in->size) {
		sdt_put(image->arch, symbols->data + at + in->value, sdt_word_size(image->arch),
			site);
		site += SDT_SLOT;
	}
	write_dynamic(image);
	sdt_notes_address(&image->content[SDT_NOTES], image->arch, image->addr[SDT_TEXT],
			image->addr[SDT_BASE]);
}

/*
 * write_build_id writes the 128-bit FNV-1a hash of the file, computed while the build ID is
 * zero.
 */
static void write_build_id(struct sdt_image *image)
{
	unsigned char *id = image->bytes + image->offset[SDT_BUILD_ID] + SDT_ID_OFFSET;
	uint64_t high = 0x6c62272e07bb0142, low = 0x62b821756295c58d;

	for (size_t i = 0; i < image->size; i++) {
		uint64_t carry;

		low ^= image->bytes[i];
		/* times 2^88 + 0x13b */
		carry = ((low >> 32) * 0x13b + ((low & UINT32_MAX) * 0x13b >> 32)) >> 32;
		high = high * 0x13b + carry + (low << 24);
		low *= 0x13b;
	}
	for (int i = 0; i < 8; i++) {
		id[i] = (unsigned char)(high >> (56 - 8 * i));
		id[8 + i] = (unsigned char)(low >> (56 - 8 * i));
	}
}

/* copy_debug copies the debug sections that Go has made. */
static void copy_debug(struct sdt_image *image)
{
	const unsigned char *bytes = image->debug->bytes;

	for (int i = 0; i < SDT_DEBUG_SECTIONS; i++) {
		sdt_buffer_add(&image->content[SDT_INFO + i], bytes, image->debug->size[i]);
		bytes += image->debug->size[i];
	}
}

/* fill_sections fills the sections, except for addresses. */
static bool fill_sections(const struct sdt_provider *provider, struct sdt_image *image)
{
	struct sdt_buffer *names = &image->content[SDT_SHSTRTAB];
	bool failed = false;

	if (provider->count > UINT32_MAX / 64)
		return false;
	fill_build_id(image);
	fill_hash(provider, image);
	fill_symbols(provider, image);
	fill_text(provider, image);
	sdt_buffer_fill(&image->content[SDT_BASE], 0, 1);
	sdt_buffer_fill(&image->content[SDT_DYNAMIC], 0,
			2 * DYNAMIC_ENTRIES * sdt_word_size(image->arch));
	fill_notes(provider, image);
	if (image->debug)
		copy_debug(image);
	else if (image->described)
		(void)sdt_dwarf_fill(provider, image); /* a failure sticks to its sections */
	sdt_buffer_fill(names, 0, 1);
	for (int i = 1; i < SDT_SECTIONS; i++) {
		if (sdt_section_number(image, i))
			sdt_buffer_add(names, sdt_section_names[i],
				       strlen(sdt_section_names[i]) + 1);
		failed |= image->content[i].failed;
	}
	return !failed;
}

static int fail_image_memory(struct sdt_provider *provider)
{
	return sdt_fail(&provider->api, elfCreationError,
			"make the image of %s: out of memory, or too large", provider->name);
}

/*
 * complete_sections writes what depends on the addresses, once libelf has laid out the
 * sections.
 */
static int complete_sections(struct sdt_provider *provider, struct sdt_image *image)
{
	if (image->debug && image->debug->text != image->addr[SDT_TEXT])
		return sdt_fail(&provider->api, elfCreationError,
				"make the image of %s: the sites are described at %#llx, not %#llx",
				provider->name, (unsigned long long)image->debug->text,
				(unsigned long long)image->addr[SDT_TEXT]);
	write_addresses(image);
	if (image->described && !image->debug && !sdt_dwarf_fill(provider, image))
		return fail_image_memory(provider);
	return 0;
}

/*
 * sdt_image_make makes an image, with the given debug sections or, if debug is NULL, with
 * those of the provider's names. The caller frees its bytes.
 */
int sdt_image_make(struct sdt_provider *provider, const struct sdt_arch *arch,
		   const struct sdt_nop *nop, const struct sdt_debug *debug,
		   struct sdt_image *image)
{
	int status = -1;

	*image = (struct sdt_image){.arch = arch, .nop = nop, .debug = debug};
	image->described = debug || (provider->named && sdt_registers_find(arch));
	if (!fill_sections(provider, image))
		fail_image_memory(provider);
	else
		status = sdt_elf_make(provider, image, complete_sections);
	if (status == 0) {
		write_build_id(image);
		provider->described = provider->count;
		provider->text_offset = image->offset[SDT_TEXT];
	}
	for (int i = 1; i < SDT_SECTIONS; i++)
		sdt_buffer_free(&image->content[i]);
	return status;
}

/* sdt_image_host makes the image for this process, with the nop that the provider uses. */
int sdt_image_host(struct sdt_provider *provider, struct sdt_image *image)
{
	const struct sdt_arch *arch = sdt_arch_find(SDT_HOST_ARCH);
	const struct sdt_nop *nop;

	if (!arch)
		return sdt_fail(&provider->api, elfCreationError,
				"make the image of %s: not supported on this architecture",
				provider->name);
	nop = sdt_nop_of(provider);
	return nop ? sdt_image_make(provider, arch, nop, NULL, image) : -1;
}

int providerImage(SDTProvider_t *provider, void **image, size_t *size)
{
	struct sdt_image made = {0};

	if (!provider)
		return -1;
	sdt_clear(provider);
	if (!image || !size)
		return sdt_fail(provider, elfCreationError,
				"make the image of %s: image or size is NULL", provider->name);
	if (sdt_image_host(sdt_provider(provider), &made) != 0)
		return -1;
	*image = made.bytes;
	*size = made.size;
	return 0;
}

/* sdt_provider_image is providerImage for any architecture and nop of arch.def. */
int sdt_provider_image(SDTProvider_t *provider, const char *arch, const char *nop,
		       const struct sdt_debug *debug, void **image, size_t *size)
{
	const struct sdt_arch *arch_row = sdt_arch_find(arch);
	const struct sdt_nop *nop_row = sdt_nop_find(arch, nop);
	struct sdt_image made = {0};

	sdt_clear(provider);
	if (!arch_row || !nop_row)
		return sdt_fail(provider, elfCreationError,
				"make the image of %s: no nop %s on architecture %s",
				provider->name, nop, arch);
	if (sdt_image_make(sdt_provider(provider), arch_row, nop_row, debug, &made) != 0)
		return -1;
	*image = made.bytes;
	*size = made.size;
	return 0;
}
