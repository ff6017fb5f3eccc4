/* What the library's files share. */
#ifndef SDT_PRIVATE_H
#define SDT_PRIVATE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "libstapsdt.h"

/* GOARCH's name for the machine this is compiled for; tests define another. */
#ifndef SDT_HOST_ARCH
#if defined(__x86_64__) && defined(__LP64__)
#define SDT_HOST_ARCH "amd64"
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define SDT_HOST_ARCH "arm64"
#elif defined(__riscv) && defined(__riscv_float_abi_double) && defined(__LP64__)
#define SDT_HOST_ARCH "riscv64"
#elif defined(__s390x__)
#define SDT_HOST_ARCH "s390x"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__) && defined(_CALL_ELF) && _CALL_ELF == 2
#define SDT_HOST_ARCH "ppc64le"
#elif defined(__i386__)
#define SDT_HOST_ARCH "386"
#elif defined(__ARM_EABI__) && defined(__ARMEL__)
#define SDT_HOST_ARCH "arm"
#else
#define SDT_HOST_ARCH "other"
#endif
#endif

/* A slot holds one site: its nop, whose address is the trace point, and a return. */
#define SDT_SLOT 16

/* buffer.c: bytes that grow. A failure sticks, so that it is asked for once, at the end. */
struct sdt_buffer {
	unsigned char *data;
	size_t size, capacity;
	bool failed;
};

void *sdt_buffer_extend(struct sdt_buffer *buffer, size_t size);
void sdt_buffer_add(struct sdt_buffer *buffer, const void *bytes, size_t size);
void sdt_buffer_fill(struct sdt_buffer *buffer, unsigned char byte, size_t size);
void sdt_buffer_free(struct sdt_buffer *buffer);

/* arch.c: arch.def as data. */
struct sdt_arch {
	const char *name;
	uint16_t machine;
	uint32_t flags;
	unsigned char class, data;
	size_t hash;
	uint64_t page;
	const char *ret;
	size_t ret_size;
	unsigned char fill;
	const char *const *registers; /* ended by NULL */
	int (*stack)(char *out, size_t size, unsigned offset);
};

static inline bool sdt_big_endian(const struct sdt_arch *arch)
{
	return arch->data == 2;
}

/* sdt_word_size is the size of an address, in bytes. */
static inline size_t sdt_word_size(const struct sdt_arch *arch)
{
	return arch->class == 1 ? 4 : 8;
}

/* Numbers as the architecture has them in memory. Each returns where the next one goes. */
static inline unsigned char *sdt_put32(const struct sdt_arch *arch, unsigned char *out,
				       uint32_t value)
{
	if (sdt_big_endian(arch) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
		value = __builtin_bswap32(value);
	memcpy(out, &value, sizeof value);
	return out + sizeof value;
}

static inline uint32_t sdt_get32(const struct sdt_arch *arch, const unsigned char *in)
{
	uint32_t value;

	memcpy(&value, in, sizeof value);
	if (sdt_big_endian(arch) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
		value = __builtin_bswap32(value);
	return value;
}

static inline unsigned char *sdt_put64(const struct sdt_arch *arch, unsigned char *out,
				       uint64_t value)
{
	if (sdt_big_endian(arch) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
		value = __builtin_bswap64(value);
	memcpy(out, &value, sizeof value);
	return out + sizeof value;
}

/* sdt_put writes a number of 4 or 8 bytes. */
static inline unsigned char *sdt_put(const struct sdt_arch *arch, unsigned char *out, size_t size,
				     uint64_t value)
{
	return size == 4 ? sdt_put32(arch, out, (uint32_t)value) : sdt_put64(arch, out, value);
}

struct sdt_site {
	const char *arch, *name, *nop;
	size_t nop_size;
};

/* An operand is where an argument is; on a big-endian machine it depends on its size. */
struct sdt_operand {
	char text[24];
	size_t length;
};

#define SDT_SIZES 4 /* 1, 2, 4 and 8 bytes */

struct sdt_operands {
	struct sdt_operand of[SDT_SIZES][SDT_MAX_ARGUMENTS];
};

/* sdt_size_index is 0 to 3 for a type of 1, 2, 4 or 8 bytes, signed or not. */
static inline size_t sdt_size_index(int type)
{
	return (size_t)__builtin_ctz((unsigned)(type < 0 ? -type : type));
}

const struct sdt_arch *sdt_arch_find(const char *name);
const struct sdt_site *sdt_site_find(const char *arch, const char *name);
void sdt_arch_operands(const struct sdt_arch *arch, struct sdt_operands *operands, size_t count);

/* site.c: the kind of site this process uses, and its first byte while nobody traces it. */
extern _Atomic unsigned char sdt_site_idle;
const struct sdt_site *sdt_site_host(void);
const char *sdt_site_name(void);

/* provider.c: the public structs are the first members of these. */
struct sdt_probe {
	SDTProbeList_t list;
	size_t index, name_size; /* name_size counts the NUL */
	ArgType_t types[SDT_MAX_ARGUMENTS];
	char name[];
};

struct sdt_names {
	struct sdt_probe **slots;
	size_t size, used;
};

/* A process, by its number, which in another namespace may be another's. */
struct sdt_process {
	pid_t pid;
	unsigned long namespace; /* 0 without /proc */
};

struct sdt_process sdt_this_process(void);

/* sdt_is_elsewhere reports that it is another process than this, and may live. */
bool sdt_is_elsewhere(const struct sdt_process *process);

/* Whose the memfd or the file of a loaded image is. */
struct sdt_owner {
	struct sdt_process loader; /* of a file */
	dev_t dev;                 /* of a memfd */
	ino_t ino;
};

struct sdt_provider {
	SDTProvider_t api;
	struct sdt_probe *last;
	size_t count;
	struct sdt_names names;
	size_t described;     /* the probes in the last image */
	uint64_t text_offset; /* where its sites begin */
	uintptr_t base;       /* where it was loaded */
	struct sdt_owner owner;
	size_t name_size;
	char name[];
};

static inline struct sdt_provider *sdt_provider(SDTProvider_t *provider)
{
	return (struct sdt_provider *)provider;
}

static inline const struct sdt_probe *sdt_next(const struct sdt_probe *probe)
{
	return (const struct sdt_probe *)probe->list.next;
}

static inline const struct sdt_probe *sdt_first(const struct sdt_provider *provider)
{
	return (const struct sdt_probe *)provider->api.probes;
}

/* names.c: the first probe of each name. */
const struct sdt_probe *sdt_names_find(const struct sdt_names *names, const char *name);
bool sdt_names_reserve(struct sdt_names *names);
void sdt_names_add(struct sdt_names *names, struct sdt_probe *probe);

/*
 * error.c. sdt_fail records a failure and returns -1; %m in its format is the
 * system's reason.
 */
int sdt_fail(SDTProvider_t *provider, SDTError_t code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void sdt_clear(SDTProvider_t *provider);

/* note.c: .note.stapsdt. */
void sdt_note_add(struct sdt_buffer *notes, const struct sdt_arch *arch,
		  const struct sdt_operands *operands, const struct sdt_provider *provider,
		  const struct sdt_probe *probe);
void sdt_notes_place(struct sdt_buffer *notes, const struct sdt_arch *arch, uint64_t sites,
		     uint64_t base);

/* The sections of an image, by their index. */
enum {
	SDT_BUILD_ID = 1,
	SDT_HASH,
	SDT_DYNSYM,
	SDT_DYNSTR,
	SDT_TEXT,
	SDT_BASE,
	SDT_DYNAMIC,
	SDT_NOTES,
	SDT_SHSTRTAB,
	SDT_SECTIONS
};

/* The note's header, "GNU" and the id: the id's place in it, and its size. */
#define SDT_ID_OFFSET 16
#define SDT_ID_SIZE 16

/* image.c: what is in an image. */
struct sdt_image {
	const struct sdt_arch *arch;
	const struct sdt_site *site;
	struct sdt_buffer content[SDT_SECTIONS];
	uint64_t offset[SDT_SECTIONS]; /* in the file */
	uint64_t addr[SDT_SECTIONS];   /* from the load base; 0 when not loaded */
	unsigned char *bytes;          /* the finished file, malloc's */
	size_t size;
};

int sdt_image_make(struct sdt_provider *provider, const struct sdt_arch *arch,
		   const struct sdt_site *site, struct sdt_image *image);
int sdt_image_host(struct sdt_provider *provider, struct sdt_image *image);
void sdt_image_place(struct sdt_image *image);
int sdt_provider_image(SDTProvider_t *provider, const char *arch, const char *site, void **image,
		       size_t *size);

/* elf.c: how it is laid out and written, by libelf. */
extern const char *const sdt_section_names[SDT_SECTIONS];
int sdt_elf_write(struct sdt_provider *provider, struct sdt_image *image);

#endif
