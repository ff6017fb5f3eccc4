/* The image as an ELF file, laid out by libelf. */
#if !__has_include(<libelf.h>)
#error "stapsdt: libelf's headers are missing: apt-get install libelf-dev (or dnf install elfutils-libelf-devel, apk add elfutils-dev), or build with CGO_ENABLED=0"
#else

#include "private.h"

#include <fcntl.h>
#include <gelf.h>
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
	[SDT_SHSTRTAB] = ".shstrtab",
};

/* More than a slot for the Go package, which loads images over the addresses of earlier ones. */
#define TEXT_ALIGN 256

/* The contents are the file's bytes already, so that libelf has nothing to convert. */
static const struct {
	Elf64_Word type;
	Elf64_Xword flags;
	size_t align; /* 0 is a word's */
	Elf64_Word link, info;
} sections[SDT_SECTIONS] = {
	[SDT_BUILD_ID] = {SHT_NOTE, SHF_ALLOC, 4, 0, 0},
	[SDT_HASH] = {SHT_HASH, SHF_ALLOC, 0, SDT_DYNSYM, 0},
	[SDT_DYNSYM] = {SHT_DYNSYM, SHF_ALLOC, 0, SDT_DYNSTR, 1},
	[SDT_DYNSTR] = {SHT_STRTAB, SHF_ALLOC, 1, 0, 0},
	[SDT_TEXT] = {SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_ALIGN, 0, 0},
	[SDT_BASE] = {SHT_PROGBITS, SHF_ALLOC, 1, 0, 0},
	[SDT_DYNAMIC] = {SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, 0, SDT_DYNSTR, 0},
	[SDT_NOTES] = {SHT_NOTE, 0, 4, 0, 0},
	[SDT_SHSTRTAB] = {SHT_STRTAB, 0, 1, 0, 0},
};

#define SEGMENTS 5

static bool add_header(Elf *elf, const struct sdt_image *image)
{
	GElf_Ehdr header;

	if (!gelf_newehdr(elf, image->arch->class) || !gelf_getehdr(elf, &header))
		return false;
	header.e_ident[EI_DATA] = image->arch->data;
	header.e_type = ET_DYN;
	header.e_machine = image->arch->machine;
	header.e_flags = image->arch->flags;
	header.e_version = EV_CURRENT;
	header.e_shstrndx = SDT_SHSTRTAB;
	return gelf_update_ehdr(elf, &header) != 0;
}

static bool add_section(Elf *elf, struct sdt_image *image, int index, size_t name)
{
	Elf_Scn *section = elf_newscn(elf);
	GElf_Shdr header;
	Elf_Data *data;

	/* Short of memory, elf_newscn may return a section that cannot be used. */
	if (elf_errno() != 0 || !section)
		return false;
	data = elf_newdata(section);
	if (!data || !gelf_getshdr(section, &header))
		return false;
	data->d_buf = image->content[index].data;
	data->d_size = image->content[index].size;
	data->d_type = ELF_T_BYTE;
	data->d_align = sections[index].align ? sections[index].align : sdt_word_size(image->arch);
	data->d_version = EV_CURRENT;
	header.sh_name = (Elf64_Word)name;
	header.sh_type = sections[index].type;
	header.sh_flags = sections[index].flags;
	header.sh_link = sections[index].link;
	header.sh_info = sections[index].info;
	return gelf_update_shdr(section, &header) != 0;
}

/*
 * place reads where libelf put the sections. What is loaded keeps its offset
 * for an address; what is writable is a page higher, in a mapping of its own.
 */
static bool place(Elf *elf, struct sdt_image *image)
{
	for (int i = 1; i < SDT_SECTIONS; i++) {
		Elf_Scn *section = elf_getscn(elf, (size_t)i);
		GElf_Shdr header;

		if (!section || !gelf_getshdr(section, &header))
			return false;
		image->offset[i] = header.sh_offset;
		if (header.sh_flags & SHF_ALLOC)
			image->addr[i] = header.sh_offset;
		if (header.sh_flags & SHF_WRITE)
			image->addr[i] += image->arch->page;
		header.sh_addr = image->addr[i];
		if (!gelf_update_shdr(section, &header))
			return false;
	}
	return true;
}

static GElf_Phdr segment(const struct sdt_image *image, Elf64_Word type, Elf64_Word flags,
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
	Elf64_Xword page = image->arch->page, word = sdt_word_size(image->arch);
	Elf64_Xword end = image->offset[SDT_BASE] + image->content[SDT_BASE].size;
	GElf_Phdr segments[SEGMENTS] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = end, .p_memsz = end,
		 .p_align = page},
		segment(image, PT_LOAD, PF_R | PF_W, SDT_DYNAMIC, page),
		segment(image, PT_DYNAMIC, PF_R | PF_W, SDT_DYNAMIC, word),
		segment(image, PT_NOTE, PF_R, SDT_BUILD_ID, 4),
		{.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16},
	};

	for (int i = 0; i < SEGMENTS; i++)
		if (!gelf_update_phdr(elf, i, &segments[i]))
			return false;
	return true;
}

/* lay_out has libelf lay the file out; its size, or -1. */
static int64_t lay_out(Elf *elf, struct sdt_image *image)
{
	size_t name = 1;
	int64_t size;

	if (!add_header(elf, image) || !gelf_newphdr(elf, SEGMENTS))
		return -1;
	for (int i = 1; i < SDT_SECTIONS; i++) {
		if (!add_section(elf, image, i, name))
			return -1;
		name += strlen(sdt_section_names[i]) + 1;
	}
	size = elf_update(elf, ELF_C_NULL);
	if (size < 0 || !place(elf, image) || !add_segments(elf, image))
		return -1;
	sdt_image_place(image);
	return size;
}

/* put converts count headers to the file's byte order, at an offset of the image. */
static bool put(Elf *elf, struct sdt_image *image, Elf_Type type, void *headers, size_t count,
		uint64_t offset)
{
	size_t size = gelf_fsize(elf, type, count, EV_CURRENT);
	Elf_Data from = {.d_buf = headers, .d_type = type, .d_version = EV_CURRENT, .d_size = size};
	Elf_Data to = from;

	to.d_buf = image->bytes + offset;
	return headers && gelf_xlatetof(elf, &to, &from, image->arch->data);
}

/* assemble makes the bytes of what was laid out. (libelf writes to files only.) */
static bool assemble(Elf *elf, struct sdt_image *image)
{
	bool wide = image->arch->class == ELFCLASS64;
	size_t entry = gelf_fsize(elf, ELF_T_SHDR, 1, EV_CURRENT);
	GElf_Ehdr header;
	void *raw;

	image->bytes = calloc(1, image->size);
	if (!image->bytes || !gelf_getehdr(elf, &header))
		return false;
	raw = wide ? (void *)elf64_getehdr(elf) : (void *)elf32_getehdr(elf);
	if (!put(elf, image, ELF_T_EHDR, raw, 1, 0))
		return false;
	raw = wide ? (void *)elf64_getphdr(elf) : (void *)elf32_getphdr(elf);
	if (!put(elf, image, ELF_T_PHDR, raw, SEGMENTS, header.e_phoff))
		return false;
	for (int i = 1; i < SDT_SECTIONS; i++) {
		Elf_Scn *section = elf_getscn(elf, (size_t)i);

		raw = wide ? (void *)elf64_getshdr(section) : (void *)elf32_getshdr(section);
		if (!put(elf, image, ELF_T_SHDR, raw, 1, header.e_shoff + entry * (size_t)i))
			return false;
		if (image->content[i].size)
			memcpy(image->bytes + image->offset[i], image->content[i].data,
			       image->content[i].size);
	}
	return true;
}

/* sdt_elf_write makes the image's bytes of its sections. */
int sdt_elf_write(struct sdt_provider *provider, struct sdt_image *image)
{
	SDTProvider_t *api = &provider->api;
	int reason, fd;
	int64_t size;
	Elf *elf;

	elf_version(EV_CURRENT);
	(void)elf_errno(); /* an earlier caller's, which reading it takes away */
	/* libelf wants a descriptor, be there nothing to do with it. */
	fd = open("/", O_PATH | O_CLOEXEC);
	if (fd < 0)
		return sdt_fail(api, elfCreationError, "make the image of %s: %m", api->name);
	elf = elf_begin(fd, ELF_C_WRITE, NULL);
	size = elf ? lay_out(elf, image) : -1;
	image->size = size < 0 ? 0 : (size_t)size;
	if (size < 0 || !assemble(elf, image)) {
		reason = elf_errno();
		sdt_fail(api, elfCreationError, "make the image of %s: libelf: %s", api->name,
			 reason ? elf_errmsg(reason) : "out of memory");
		free(image->bytes);
		image->bytes = NULL;
	}
	elf_end(elf);
	close(fd);
	return image->bytes ? 0 : -1;
}

#endif
