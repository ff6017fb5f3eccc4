/* What is in an image: everything but its place in the file, which is elf.c's. */
#include "private.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

static uint32_t elf_hash_of(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

static void fill_hash(const struct sdt_provider *provider, struct sdt_buffer *out)
{
	uint32_t buckets = provider->count ? (uint32_t)provider->count : 1;
	uint32_t chains = (uint32_t)provider->count + 1, i = 0, *words, *bucket, *chain;
	size_t size = (2 + (size_t)buckets + chains) * sizeof *words;

	words = sdt_buffer_extend(out, size);
	if (!words)
		return;
	memset(words, 0, size);
	words[0] = buckets;
	words[1] = chains;
	bucket = words + 2;
	chain = bucket + buckets;
	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p)) {
		uint32_t *head = &bucket[elf_hash_of(p->name) % buckets];

		chain[++i] = *head;
		*head = i;
	}
}

static void fill_symbols(const struct sdt_provider *provider, struct sdt_image *image)
{
	struct sdt_buffer *strings = &image->content[SDT_DYNSTR];
	Elf64_Sym *symbol = sdt_buffer_extend(&image->content[SDT_DYNSYM],
					      (provider->count + 1) * sizeof *symbol);

	sdt_buffer_fill(strings, 0, 1);
	if (!symbol)
		return;
	*symbol++ = (Elf64_Sym){0};
	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p)) {
		*symbol++ = (Elf64_Sym){
			.st_name = (Elf64_Word)strings->size,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = SDT_TEXT,
			.st_size = image->site->nop_size + image->arch->ret_size,
		};
		sdt_buffer_add(strings, p->name, p->name_size);
	}
	if (strings->size > UINT32_MAX)
		strings->failed = true;
}

static void fill_text(const struct sdt_provider *provider, struct sdt_image *image)
{
	const struct sdt_arch *arch = image->arch;
	const struct sdt_site *site = image->site;
	unsigned char slot[SDT_SLOT], *out;

	memset(slot, arch->fill, sizeof slot);
	memcpy(slot, site->nop, site->nop_size);
	memcpy(slot + site->nop_size, arch->ret, arch->ret_size);
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
		if (p->list.probe.argCount > count)
			count = p->list.probe.argCount;
	sdt_arch_operands(image->arch, &operands, (size_t)count);
	for (const struct sdt_probe *p = sdt_first(provider); p; p = sdt_next(p))
		sdt_note_add(notes, &operands, provider, p);
}

static void fill_build_id(struct sdt_buffer *out)
{
	unsigned char *note = sdt_buffer_extend(out, SDT_ID_OFFSET + SDT_ID_SIZE);

	if (!note)
		return;
	memset(note, 0, SDT_ID_OFFSET + SDT_ID_SIZE);
	sdt_put32(note, 4);
	sdt_put32(note + 4, SDT_ID_SIZE);
	sdt_put32(note + 8, NT_GNU_BUILD_ID);
	memcpy(note + 12, "GNU", 4);
}

/* The dynamic section's entries; their values are written by sdt_image_place. */
static const Elf64_Sxword tags[] = {DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL};

static void fill_dynamic(struct sdt_buffer *out)
{
	for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
		sdt_buffer_add(out, &(Elf64_Dyn){.d_tag = tags[i]}, sizeof(Elf64_Dyn));
}

/* sdt_image_place writes the addresses, when libelf has laid the sections out. */
void sdt_image_place(struct sdt_image *image)
{
	Elf64_Dyn *dynamic = (Elf64_Dyn *)(void *)image->content[SDT_DYNAMIC].data;
	Elf64_Sym *symbols = (Elf64_Sym *)(void *)image->content[SDT_DYNSYM].data;
	size_t count = image->content[SDT_DYNSYM].size / sizeof *symbols;

	for (size_t i = 1; i < count; i++)
		symbols[i].st_value = image->addr[SDT_TEXT] + SDT_SLOT * (i - 1);
	dynamic[0].d_un.d_val = image->addr[SDT_HASH];
	dynamic[1].d_un.d_val = image->addr[SDT_DYNSTR];
	dynamic[2].d_un.d_val = image->addr[SDT_DYNSYM];
	dynamic[3].d_un.d_val = image->content[SDT_DYNSTR].size;
	dynamic[4].d_un.d_val = sizeof *symbols;
	sdt_notes_place(&image->content[SDT_NOTES], image->addr[SDT_TEXT], image->addr[SDT_BASE]);
}

/* build_id writes the FNV-1a hash, of 128 bits, of the file without it. */
static void build_id(struct sdt_image *image)
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

/* sdt_image_make makes an image, whose bytes are the caller's to free. */
int sdt_image_make(struct sdt_provider *provider, const struct sdt_arch *arch,
		   const struct sdt_site *site, struct sdt_image *image)
{
	SDTProvider_t *api = &provider->api;
	bool failed = provider->count > UINT32_MAX / 64;
	int status = -1;

	*image = (struct sdt_image){.arch = arch, .site = site};
	if (failed)
		goto out;
	fill_build_id(&image->content[SDT_BUILD_ID]);
	fill_hash(provider, &image->content[SDT_HASH]);
	fill_symbols(provider, image);
	fill_text(provider, image);
	sdt_buffer_fill(&image->content[SDT_BASE], 0, 1);
	fill_dynamic(&image->content[SDT_DYNAMIC]);
	fill_notes(provider, image);
	sdt_buffer_fill(&image->content[SDT_SHSTRTAB], 0, 1);
	for (int i = 1; i < SDT_SECTIONS; i++) {
		sdt_buffer_add(&image->content[SDT_SHSTRTAB], sdt_section_names[i],
			       strlen(sdt_section_names[i]) + 1);
		failed |= image->content[i].failed;
	}
out:
	if (failed)
		sdt_fail(api, elfCreationError, "make the image of %s: out of memory, or too large",
			 api->name);
	else
		status = sdt_elf_write(provider, image);
	for (int i = 1; i < SDT_SECTIONS; i++)
		sdt_buffer_free(&image->content[i]);
	if (status != 0)
		return -1;
	build_id(image);
	provider->described = provider->count;
	provider->text_offset = image->offset[SDT_TEXT];
	return 0;
}

/* sdt_image_host makes the image for this process. */
int sdt_image_host(struct sdt_provider *provider, struct sdt_image *image)
{
	const struct sdt_arch *arch = sdt_arch_find(SDT_HOST_ARCH);
	const struct sdt_site *site = sdt_site_host();

	if (!arch || !site)
		return sdt_fail(&provider->api, elfCreationError,
				"make the image of %s: not supported on this architecture",
				provider->name);
	return sdt_image_make(provider, arch, site, image);
}

int providerImage(SDTProvider_t *provider, void **image, size_t *size)
{
	struct sdt_image made;

	if (!provider)
		return -1;
	sdt_clear(provider);
	if (!image || !size)
		return sdt_fail(provider, elfCreationError,
				"make the image of %s: nowhere to put it", provider->name);
	if (sdt_image_host(sdt_provider(provider), &made) != 0)
		return -1;
	*image = made.bytes;
	*size = made.size;
	return 0;
}

/* sdt_provider_image is providerImage for any architecture and site of arch.def. */
int sdt_provider_image(SDTProvider_t *provider, const char *arch, const char *site, void **image,
		       size_t *size)
{
	const struct sdt_arch *arch_row = sdt_arch_find(arch);
	const struct sdt_site *site_row = sdt_site_find(arch, site);
	struct sdt_image made;

	sdt_clear(provider);
	if (!arch_row || !site_row)
		return sdt_fail(provider, elfCreationError,
				"make the image of %s: no site %s on architecture %s",
				provider->name, site, arch);
	if (sdt_image_make(sdt_provider(provider), arch_row, site_row, &made) != 0)
		return -1;
	*image = made.bytes;
	*size = made.size;
	return 0;
}
