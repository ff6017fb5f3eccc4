/* The image as an ELF file, laid out and written by libelf. */
#if !__has_include(<libelf.h>)
#error "stapsdt: libelf's headers are missing: apt-get install libelf-dev (or dnf install elfutils-libelf-devel, apk add elfutils-dev), or build with CGO_ENABLED=0"
#else

#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	[SDT_TEXT] = {SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 16, 0, 0},
	[SDT_BASE] = {SHT_PROGBITS, SHF_ALLOC, 1, 0, 0},
	[SDT_DYNAMIC] = {SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, 0, SDT_DYNSTR, 0},
	[SDT_NOTES] = {SHT_NOTE, 0, 4, 0, 0},
	[SDT_SHSTRTAB] = {SHT_STRTAB, 0, 1, 0, 0},
};

#define SEGMENTS 5

/* scratch opens a nameless file: libelf writes to descriptors only. */
static int scratch(void)
{
	char name[] = "/tmp/stapsdt-XXXXXX";
	int fd = memfd_create("stapsdt", MFD_CLOEXEC | 8 /* MFD_NOEXEC_SEAL, since 6.3 */);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("stapsdt", MFD_CLOEXEC);
	if (fd < 0)
		fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		fd = mkostemp(name, O_CLOEXEC);
		if (fd >= 0)
			unlink(name);
	}
	return fd;
}

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

/* write_file has libelf lay the file out and write it; its size, or -1. */
static int64_t write_file(Elf *elf, struct sdt_image *image)
{
	size_t name = 1;

	if (!add_header(elf, image) || !gelf_newphdr(elf, SEGMENTS))
		return -1;
	for (int i = 1; i < SDT_SECTIONS; i++) {
		if (!add_section(elf, image, i, name))
			return -1;
		name += strlen(sdt_section_names[i]) + 1;
	}
	if (elf_update(elf, ELF_C_NULL) < 0 || !place(elf, image) || !add_segments(elf, image))
		return -1;
	sdt_image_place(image);
	return elf_update(elf, ELF_C_WRITE);
}

static unsigned char *read_back(int fd, size_t size)
{
	unsigned char *bytes = malloc(size);
	size_t done = 0;
	ssize_t n;

	while (bytes && done < size) {
		n = pread(fd, bytes + done, size - done, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			free(bytes);
			return NULL;
		}
		done += (size_t)n;
	}
	return bytes;
}

/* sdt_elf_write makes the image's bytes of its sections. */
int sdt_elf_write(struct sdt_provider *provider, struct sdt_image *image)
{
	SDTProvider_t *api = &provider->api;
	int status = -1, fd;
	int64_t size;
	int reason;
	Elf *elf;

	elf_version(EV_CURRENT);
	(void)elf_errno(); /* an earlier caller's, which reading it takes away */
	fd = scratch();
	if (fd < 0)
		return sdt_fail(api, elfCreationError, "make the image of %s: no scratch file: %m",
				provider->name);
	elf = elf_begin(fd, ELF_C_WRITE, NULL);
	size = elf ? write_file(elf, image) : -1;
	if (size < 0) {
		reason = elf_errno();
		sdt_fail(api, elfCreationError, "make the image of %s: libelf: %s", provider->name,
			 reason ? elf_errmsg(reason) : "out of memory");
		goto out;
	}
	image->size = (size_t)size;
	image->bytes = read_back(fd, image->size);
	if (!image->bytes)
		sdt_fail(api, elfCreationError, "make the image of %s: read it: %m", provider->name);
	else
		status = 0;
out:
	elf_end(elf);
	close(fd);
	return status;
}

#endif
