/* The image of a provider: its sections, and the functions that make them. Include private.h. */
#ifndef SDT_IMAGE_H
#define SDT_IMAGE_H

/* image.c: an image. Its sections have these indexes. */
enum {
	SDT_BUILD_ID = 1,
	SDT_HASH,
	SDT_DYNSYM,
	SDT_DYNSTR,
	SDT_TEXT,
	SDT_BASE,
	SDT_DYNAMIC,
	SDT_NOTES,
	SDT_INFO, /* the first debug section, which an image without a description lacks */
	SDT_ABBREV,
	SDT_STR,
	SDT_ARANGES,
	SDT_LINE,
	SDT_SHSTRTAB,
	SDT_SECTIONS
};

#define SDT_DEBUG_SECTIONS (SDT_SHSTRTAB - SDT_INFO)

/* The debug sections that Go has made, with the address that it gives to the first site. */
struct sdt_debug {
	size_t size[SDT_DEBUG_SECTIONS];
	uint64_t text;
	const unsigned char *bytes; /* one section after the other */
};

/* The build ID comes after the header of its note and "GNU". */
#define SDT_ID_OFFSET 16
#define SDT_ID_SIZE 16

struct sdt_image {
	const struct sdt_arch *arch;
	const struct sdt_nop *nop;
	const struct sdt_debug *debug; /* NULL if this library makes the debug sections */
	bool described;                /* whether there are debug sections */
	struct sdt_buffer content[SDT_SECTIONS];
	uint64_t offset[SDT_SECTIONS]; /* in the file */
	uint64_t addr[SDT_SECTIONS];   /* from the load base, 0 for a section that is not loaded */
	unsigned char *bytes;          /* the finished file, from malloc */
	size_t size;
};

/* sdt_section_number returns the number of a section in the file, or 0 if it is not there. */
static inline int sdt_section_number(const struct sdt_image *image, int section)
{
	if (image->described || section < SDT_INFO)
		return section;
	return section == SDT_SHSTRTAB ? section - SDT_DEBUG_SECTIONS : 0;
}

int sdt_image_make(struct sdt_provider *provider, const struct sdt_arch *arch,
		   const struct sdt_nop *nop, const struct sdt_debug *debug,
		   struct sdt_image *image);
int sdt_image_host(struct sdt_provider *provider, struct sdt_image *image);
int sdt_provider_image(SDTProvider_t *provider, const char *arch, const char *nop,
		       const struct sdt_debug *debug, void **image, size_t *size);

/*
 * dwarf.c: the debug sections. They are made a second time when the address of the
 * sites is known; their sizes do not depend on it.
 */
bool sdt_dwarf_fill(const struct sdt_provider *provider, struct sdt_image *image);

/* elf.c: an image as an ELF file. `complete` writes what depends on the addresses of the sections. */
extern const char *const sdt_section_names[SDT_SECTIONS];
int sdt_elf_make(struct sdt_provider *provider, struct sdt_image *image,
		 int (*complete)(struct sdt_provider *, struct sdt_image *));

#endif
