/* An image as an ELF file, laid out by libelf. */
#if !defined(SDT_IN_GO) && !__has_include(<gelf.h>)
#error "stapsdt: libelf's headers are missing: apt-get install libelf-dev (or dnf install elfutils-libelf-devel, apk add elfutils-dev)"
#endif

#include "private.h"

#include "elflib.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const sdt_section_names[SDT_SECTIONS] = {
	[SDT_BUILD_ID] = ".note.gnu.build-id",
	[SDT_HASH] = ".hash",
	[SDT_DYNSYM] = ".dynsym",
	[SDT_DYNSTR] = ".dynstr",
	[SDT_TEXT] = ".text",
	[SDT_BASE] = ".stapsdt.base",
	[SDT_DYNAMIC] = ".dynamic",
	[SDT_NOTES] = ".note.stapsdt",
	[SDT_INFO] = ".debug_info",
	[SDT_ABBREV] = ".debug_abbrev",
	[SDT_STR] = ".debug_str",
	[SDT_ARANGES] = ".debug_aranges",
	[SDT_LINE] = ".debug_line",
	[SDT_SHSTRTAB] = ".shstrtab",
};

#ifdef SDT_WITHOUT_LIBELF

int sdt_elf_make(struct sdt_provider *provider, struct sdt_image *image,
		 int (*complete)(struct sdt_provider *, struct sdt_image *))
{
	(void)image;
	(void)complete;
	return sdt_fail(&provider->api, elfCreationError,
			"make the image of %s: built without libelf", provider->name);
}

#else

/*
 * The alignment is larger than a slot because the Go package loads images over the
 * addresses of earlier ones.
 */
#define TEXT_ALIGN 256

/*
 * The sections. Their contents already have the byte order of the file, so that
 * libelf converts nothing.
 */
static const struct section_row {
	Elf64_Word type;
	Elf64_Xword flags;
	size_t align; /* 0 for the size of a word */
	Elf64_Word link, info;
} section_rows[SDT_SECTIONS] = {
	[SDT_BUILD_ID] = {SHT_NOTE, SHF_ALLOC, 4, 0, 0},
	[SDT_HASH] = {SHT_HASH, SHF_ALLOC, 0, SDT_DYNSYM, 0},
	[SDT_DYNSYM] = {SHT_DYNSYM, SHF_ALLOC, 0, SDT_DYNSTR, 1},
	[SDT_DYNSTR] = {SHT_STRTAB, SHF_ALLOC, 1, 0, 0},
	[SDT_TEXT] = {SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_ALIGN, 0, 0},
	[SDT_BASE] = {SHT_PROGBITS, SHF_ALLOC, 1, 0, 0},
	[SDT_DYNAMIC] = {SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, 0, SDT_DYNSTR, 0},
	[SDT_NOTES] = {SHT_NOTE, 0, 4, 0, 0},
	[SDT_INFO] = {SHT_PROGBITS, 0, 1, 0, 0},
	[SDT_ABBREV] = {SHT_PROGBITS, 0, 1, 0, 0},
	[SDT_STR] = {SHT_PROGBITS, SHF_MERGE | SHF_STRINGS, 1, 0, 0},
	[SDT_ARANGES] = {SHT_PROGBITS, 0, 1, 0, 0},
	[SDT_LINE] = {SHT_PROGBITS, 0, 1, 0, 0},
	[SDT_SHSTRTAB] = {SHT_STRTAB, 0, 1, 0, 0},
};

#define SEGMENTS 5

static bool add_header(Elf *elf, const struct sdt_image *image)
{
	const struct sdt_libelf *lib = sdt_libelf();
	GElf_Ehdr header;

	if (!lib->gelf_newehdr(elf, image->arch->class) || !lib->gelf_getehdr(elf, &header))
		return false;
	header.e_ident[EI_DATA] = image->arch->data;
	header.e_type = ET_DYN;
	header.e_machine = image->arch->machine;
	header.e_flags = image->arch->flags;
	header.e_version = EV_CURRENT;
	header.e_shstrndx = (Elf64_Half)sdt_section_number(image, SDT_SHSTRTAB);
	return lib->gelf_update_ehdr(elf, &header) != 0;
}

static bool add_section(Elf *elf, struct sdt_image *image, int index, size_t name)
{
	const struct sdt_libelf *lib = sdt_libelf();
	const struct section_row *row = &section_rows[index];
	Elf_Scn *section = lib->elf_newscn(elf);
	GElf_Shdr header;
	Elf_Data *data;

	/* If memory is short, elf_newscn may return a section that cannot be used. */
	if (lib->elf_errno() != 0 || !section)
		return false;
	data = lib->elf_newdata(section);
	if (!data || !lib->gelf_getshdr(section, &header))
		return false;
	data->d_buf = image->content[index].data;
	data->d_size = image->content[index].size;
	data->d_type = ELF_T_BYTE;
	data->d_align = row->align ? row->align : sdt_word_size(image->arch);
	data->d_version = EV_CURRENT;
	header.sh_name = (Elf64_Word)name;
	header.sh_type = row->type;
	header.sh_flags = row->flags;
	header.sh_link = row->link;
	header.sh_info = row->info;
	/* libelf knows the size of an entry of the other sections. */
	if (row->flags & SHF_STRINGS)
		header.sh_entsize = 1;
	return lib->gelf_update_shdr(section, &header) != 0;
}

/*
 * read_layout reads where libelf has put the sections. The address of a loaded section is
 * its offset; that of a writable section is a page higher, in its own mapping.
 */
static bool read_layout(Elf *elf, struct sdt_image *image)
{
	const struct sdt_libelf *lib = sdt_libelf();

	for (int i = 1; i < SDT_SECTIONS; i++) {
		int number = sdt_section_number(image, i);
		Elf_Scn *section = lib->elf_getscn(elf, (size_t)number);
		GElf_Shdr header;

		if (!number)
			continue;
		if (!section || !lib->gelf_getshdr(section, &header))
			return false;
		image->offset[i] = header.sh_offset;
		if (header.sh_flags & SHF_ALLOC)
			image->addr[i] = header.sh_offset;
		if (header.sh_flags & SHF_WRITE)
			image->addr[i] += image->arch->page;
		header.sh_addr = image->addr[i];
		if (!lib->gelf_update_shdr(section, &header))
			return false;
	}
	return true;
}

static GElf_Phdr make_segment(const struct sdt_image *image, Elf64_Word type, Elf64_Word flags,
			      int section, Elf64_Xword align)
{
	return (GElf_Phdr){
		.p_type = type,
		.p_flags = flags,
		.p_offset = image->offset[section],
		.p_vaddr = image->addr[section],
		.p_paddr = image->addr[section],
		.p_filesz = image->content[section].size,
		.p_memsz = image->content[section].size,
		.p_align = align,
	};
}

static bool add_segments(Elf *elf, const struct sdt_image *image)
{
	const struct sdt_libelf *lib = sdt_libelf();
	Elf64_Xword page = image->arch->page, word = sdt_word_size(image->arch);
	Elf64_Xword end = image->offset[SDT_BASE] + image->content[SDT_BASE].size;
	GElf_Phdr segments[SEGMENTS] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = end, .p_memsz = end,
		 .p_align = page},
		make_segment(image, PT_LOAD, PF_R | PF_W, SDT_DYNAMIC, page),
		make_segment(image, PT_DYNAMIC, PF_R | PF_W, SDT_DYNAMIC, word),
		make_segment(image, PT_NOTE, PF_R, SDT_BUILD_ID, 4),
		{.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16},
	};

	for (int i = 0; i < SEGMENTS; i++)
		if (!lib->gelf_update_phdr(elf, i, &segments[i]))
			return false;
	return true;
}

/* write_headers writes count headers at an offset of the image, in the byte order of the file. */
static bool write_headers(Elf *elf, struct sdt_image *image, Elf_Type type, void *headers,
			  size_t count, uint64_t offset)
{
	const struct sdt_libelf *lib = sdt_libelf();
	size_t size = lib->gelf_fsize(elf, type, count, EV_CURRENT);
	Elf_Data from = {.d_buf = headers, .d_type = type, .d_version = EV_CURRENT, .d_size = size};
	Elf_Data to = from;

	to.d_buf = image->bytes + offset;
	return headers && lib->gelf_xlatetof(elf, &to, &from, image->arch->data);
}

/*
 * write_elf_bytes makes the bytes of the file that was laid out, because libelf itself
 * writes only to files.
 */
static bool write_elf_bytes(Elf *elf, struct sdt_image *image)
{
	const struct sdt_libelf *lib = sdt_libelf();
	bool wide = image->arch->class == ELFCLASS64;
	size_t entry = lib->gelf_fsize(elf, ELF_T_SHDR, 1, EV_CURRENT);
	GElf_Ehdr header;
	void *raw;

	image->bytes = calloc(1, image->size);
	if (!image->bytes || !lib->gelf_getehdr(elf, &header))
		return false;
	raw = wide ? (void *)lib->elf64_getehdr(elf) : (void *)lib->elf32_getehdr(elf);
	if (!write_headers(elf, image, ELF_T_EHDR, raw, 1, 0))
		return false;
	raw = wide ? (void *)lib->elf64_getphdr(elf) : (void *)lib->elf32_getphdr(elf);
	if (!write_headers(elf, image, ELF_T_PHDR, raw, SEGMENTS, header.e_phoff))
		return false;
	for (int i = 1; i < SDT_SECTIONS; i++) {
		int number = sdt_section_number(image, i);
		Elf_Scn *section = lib->elf_getscn(elf, (size_t)number);

		if (!number)
			continue;
		raw = wide ? (void *)lib->elf64_getshdr(section)
			   : (void *)lib->elf32_getshdr(section);
		if (!write_headers(elf, image, ELF_T_SHDR, raw, 1,
				   header.e_shoff + entry * (size_t)number))
			return false;
		if (image->content[i].size)
			memcpy(image->bytes + image->offset[i], image->content[i].data,
			       image->content[i].size);
	}
	return true;
}

/* fail_libelf records the reason that libelf gives for a failure. */
static int fail_libelf(struct sdt_provider *provider)
{
	const struct sdt_libelf *lib = sdt_libelf();
	int reason = lib->elf_errno();

	return sdt_fail(&provider->api, elfCreationError, "make the image of %s: libelf: %s",
			provider->name, reason ? lib->elf_errmsg(reason) : "out of memory");
}

/* add_headers describes the file, its sections, and room for its segments. */
static bool add_headers(Elf *elf, struct sdt_image *image)
{
	size_t name = 1;

	if (!add_header(elf, image) || !sdt_libelf()->gelf_newphdr(elf, SEGMENTS))
		return false;
	for (int i = 1; i < SDT_SECTIONS; i++) {
		if (!sdt_section_number(image, i))
			continue;
		if (!add_section(elf, image, i, name))
			return false;
		name += strlen(sdt_section_names[i]) + 1;
	}
	return true;
}

/* lay_out sets the image's size, and the offset and address of each section. */
static bool lay_out(Elf *elf, struct sdt_image *image)
{
	int64_t size = add_headers(elf, image) ? sdt_libelf()->elf_update(elf, ELF_C_NULL) : -1;

	image->size = (size_t)size;
	return size >= 0 && read_layout(elf, image) && add_segments(elf, image);
}

/* sdt_elf_make sets the image's bytes, from its sections. */
int sdt_elf_make(struct sdt_provider *provider, struct sdt_image *image,
		 int (*complete)(struct sdt_provider *, struct sdt_image *))
{
	const struct sdt_libelf *lib = sdt_libelf();
	int fd, status = -1;
	Elf *elf;

	if (!lib)
		return sdt_fail(&provider->api, elfCreationError,
				"make the image of %s: libelf.so.1 was not found", provider->name);
	lib->elf_version(EV_CURRENT);
	(void)lib->elf_errno(); /* clears the error of an earlier caller */
	/* libelf requires a descriptor, which it does not use. */
	fd = open("/", O_PATH | O_CLOEXEC);
	if (fd < 0)
		return sdt_fail(&provider->api, elfCreationError, "make the image of %s: %m",
				provider->name);
	elf = lib->elf_begin(fd, ELF_C_WRITE, NULL);
	if (!elf || !lay_out(elf, image))
		fail_libelf(provider);
	else if (complete(provider, image) == 0)
		status = write_elf_bytes(elf, image) ? 0 : fail_libelf(provider);
	if (status != 0) {
		free(image->bytes);
		image->bytes = NULL;
	}
	lib->elf_end(elf);
	close(fd);
	return status;
}

#endif
