/* The declarations that the library's files share, in a section for each file. */
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

#define SDT_NO_INLINE /* the library defines these functions */
#include "libstapsdt.h"

/* GOARCH's name for the architecture that this is compiled for. Tests define another. */
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

static inline bool sdt_is_patched(unsigned char first)
{
	return (first & SDT_PATCHED_MASK) == SDT_PATCHED_BITS;
}

/*
 * A slot holds one site: its nop, to which tracers attach, a return, and an entry for recorded
 * probes.
 */
#define SDT_SLOT 16

/* Types that more than one section needs. */
struct sdt_provider;
struct sdt_image;
struct sdt_observation;

/*
 * buffer.c: bytes that grow. A failure sticks, so that it is enough to look at
 * `failed` once, at the end.
 */
struct sdt_buffer {
	unsigned char *data;
	size_t size, capacity;
	bool failed;
};

void *sdt_buffer_extend(struct sdt_buffer *buffer, size_t size);
void sdt_buffer_add(struct sdt_buffer *buffer, const void *bytes, size_t size);
void sdt_buffer_fill(struct sdt_buffer *buffer, unsigned char byte, size_t size);
void sdt_buffer_free(struct sdt_buffer *buffer);

/* arch.c: the architectures and their nops. arch.def describes the members. */
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
	const char *entry;
	size_t entry_size;
	const char *const *registers; /* ended by NULL */
	int (*stack)(char *out, size_t size, unsigned offset);
};

struct sdt_nop {
	const char *arch, *name, *code;
	size_t size;
	bool split;
};

/* Where an argument is. On a big-endian machine this depends on its size. */
struct sdt_operand {
	char text[24];
	size_t length;
};

/* DWARF's numbers of the registers with arguments, and of the stack pointer. */
struct sdt_registers {
	const char *arch;
	const unsigned char *args;
	size_t count;
	unsigned char stack;
	unsigned stack_first; /* the offset of the first argument on the stack */
};

#define SDT_SIZES 4 /* for 1, 2, 4 and 8 bytes */

struct sdt_operands {
	struct sdt_operand of[SDT_SIZES][SDT_MAX_ARGUMENTS];
};

const struct sdt_arch *sdt_arch_find(const char *name);
const struct sdt_registers *sdt_registers_find(const struct sdt_arch *arch);
const struct sdt_nop *sdt_nop_find(const char *arch, const char *name);
void sdt_nop_names(const char *arch, char *out, size_t size);
void sdt_arch_operands(const struct sdt_arch *arch, struct sdt_operands *operands, size_t count);

/* sdt_size_index returns 0 to 3 for a type of 1, 2, 4 or 8 bytes, signed or not. */
static inline size_t sdt_size_index(int type)
{
	return (size_t)__builtin_ctz((unsigned)(type < 0 ? -type : type));
}

static inline bool sdt_big_endian(const struct sdt_arch *arch)
{
	return arch->data == 2;
}

/* sdt_word_size returns the size of an address, in bytes. */
static inline size_t sdt_word_size(const struct sdt_arch *arch)
{
	return arch->class == 1 ? 4 : 8;
}

/*
 * Numbers in the byte order of the architecture. Each function that writes one returns
 * the address after it.
 */
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

/*
 * nop.c: the choice of the nop. sdt_nop_fastest returns NULL on an architecture
 * without a nop. sdt_nop_of records a failure if it returns NULL.
 */
const struct sdt_nop *sdt_nop_fastest(void);
const struct sdt_nop *sdt_nop_of(struct sdt_provider *provider);
const char *sdt_nop_name(void);

/* fork.c: the executable pages of an image, which a forked child maps again. */
struct sdt_mapping {
	struct sdt_mapping *next, **link; /* link points to the pointer to this mapping */
	void *start;
	size_t size;     /* whole pages */
	uint64_t offset; /* in the file */
	dev_t dev;       /* identifies the file, with ino */
	ino_t ino;
	int memfd; /* the descriptor of a memfd, or -1 */
	char path[];
};

struct sdt_mapping *sdt_fork_guard(const struct sdt_mapping *from, const char *path);
void sdt_fork_release(struct sdt_mapping *mapping);

/* process.c: a process by its number, which in another namespace may be another process. */
struct sdt_process {
	pid_t pid;
	unsigned long namespace; /* 0 without /proc */
};

struct sdt_process sdt_this_process(void);

/* sdt_stat_field returns the third or a later field of /proc/PROCESS/stat, or "". */
const char *sdt_stat_field(const char *process, char *line, size_t size, int number);

/*
 * sdt_threads_after_main returns the number of living threads, or 0 while the main thread
 * lives.
 */
unsigned long sdt_threads_after_main(const char *process);

/* sdt_is_elsewhere reports whether a process is not this one and may be alive. */
bool sdt_is_elsewhere(const struct sdt_process *process);

/* home.c: where an image is kept, in a memfd or a file. */
struct sdt_home {
	bool in_memory;
	int fd;     /* -1 if the image is in a file and is loaded */
	char *path; /* opens the file */
	dev_t dev;  /* identifies the file, together with ino: a memfd's number may be reused */
	ino_t ino;
};

int sdt_home_make(SDTProvider_t *provider, const struct sdt_image *image, struct sdt_home *home);
bool sdt_home_renumber(struct sdt_home *home);
void sdt_home_discard(struct sdt_home *home);

/* file.c: files. */
enum { SDT_OVERFLOW_USER = 65534 }; /* stands for every user without a number in a user namespace */
size_t sdt_file_read(const char *path, char *text, size_t size);
bool sdt_file_is(int fd, dev_t dev, ino_t ino);
uint64_t sdt_file_limit(void);
int sdt_file_memory(const char *name, unsigned flag);
bool sdt_all_users_mapped(void);

/*
 * descriptor.c: the numbers of the standard files, which a new descriptor does not get between
 * sdt_standard_occupy and sdt_standard_release. All descriptors that stay open, or to which
 * something can be written, are opened in between.
 */
struct sdt_standard {
	int held[3], count;
};

void sdt_standard_occupy(struct sdt_standard *standard);
int sdt_standard_release(const struct sdt_standard *standard, int fd);

/* directory.c: the directory for files, and how directories are made. */
int sdt_directory(SDTProvider_t *provider, char path[]);
int sdt_make_directory(const char *directory);
int sdt_open_made(int at, const char *name);

/* filesystem.c: the file systems that could make a probe wait. */
const char *sdt_remote_filesystem(const char *path);
const char *sdt_remote_filesystem_of(int fd);

/* names.c: a table of names, which it does not copy, and of their owners. */
struct sdt_name {
	const char *name; /* NULL in an empty slot */
	union {
		struct sdt_probe *probe; /* the first one of the name */
		uint32_t offset;         /* of a string in .debug_str */
	};
};

struct sdt_names {
	struct sdt_name *slots;
	size_t size, used;
};

struct sdt_probe *sdt_names_find(const struct sdt_names *names, const char *name);
bool sdt_names_reserve(struct sdt_names *names);
const struct sdt_name *sdt_names_add(struct sdt_names *names, const struct sdt_name *name);

/* provider.c and probe.c: the public structs are the first members of these. */
struct sdt_probe {
	SDTProbeList_t list;
	size_t index, name_size; /* name_size counts the NUL */
	int count; /* of the arguments: the program may have written to argCount */
	ArgType_t types[SDT_MAX_ARGUMENTS]; /* sdt_string is a uint64 for tracers */
	/*
	 * The names of the arguments, one after the other with a NUL each, or NULL. The
	 * first probe of a name has them for all.
	 */
	char *arguments;
	char name[];
};

struct sdt_provider {
	SDTProvider_t api;
	struct sdt_probe *last;
	size_t count;
	SDTSite_t site;
	struct sdt_names names;
	bool named;           /* whether a probe has names of arguments */
	size_t described;     /* the number of probes in the last image */
	uint64_t text_offset; /* of the first site in the last image */
	void *handle;         /* from dlopen, NULL unless loaded */
	uintptr_t base;       /* the address at which the image is loaded */
	struct sdt_home home;
	struct sdt_mapping *fork_mapping; /* the pages that forked children map again, or NULL */
	struct sdt_process loader; /* the process that removes a file */
	/* The state of observe.c: see recorder/recorder.h. */
	struct sdt_observation *observed;
	uintptr_t sites; /* the address of the first site, or 0 */
	struct sdt_provider *next, **link; /* link points to the pointer to this provider, or is NULL */
	size_t name_size;
	char name[];
};

/* sdt_tracer_type returns the type that tracers see. */
static inline int sdt_tracer_type(ArgType_t type)
{
	return type == sdt_string ? uint64 : (int)type;
}

static inline struct sdt_provider *sdt_provider(SDTProvider_t *provider)
{
	return (struct sdt_provider *)provider;
}

static inline bool sdt_is_loaded(const SDTProvider_t *provider)
{
	return ((const struct sdt_provider *)provider)->handle != NULL;
}

static inline const struct sdt_probe *sdt_next(const struct sdt_probe *probe)
{
	return (const struct sdt_probe *)probe->list.next;
}

static inline const struct sdt_probe *sdt_first(const struct sdt_provider *provider)
{
	return (const struct sdt_probe *)provider->api.probes;
}

/*
 * error.c: the error of a provider. sdt_fail records a failure and returns -1; %m in
 * its format is the system's reason. With STAPSDT_DEBUG=1, it writes it to standard error, too.
 */
bool sdt_is_debugged(void);
int sdt_fail(SDTProvider_t *provider, SDTError_t code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void sdt_clear(SDTProvider_t *provider);
#define SDT_PATH_SIZE 4096
#define SDT_LINE_SIZE (SDT_PATH_SIZE + 256)
int sdt_fail_line(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t sdt_copy_text(char *to, size_t size, const char *what, const char *text);

/* argument.c: the names of arguments. */
const char *sdt_argument_fault(const char *name);

/* note.c: the notes in .note.stapsdt. */
void sdt_note_add(struct sdt_buffer *notes, const struct sdt_arch *arch,
		  const struct sdt_operands *operands, const struct sdt_provider *provider,
		  const struct sdt_probe *probe);
void sdt_notes_address(struct sdt_buffer *notes, const struct sdt_arch *arch, uint64_t sites,
		       uint64_t base);

/*
 * The functions of recorder/ and socket/ that loads and fires call. A Go program does not compile
 * these directories, because go mod vendor omits directories without Go files. A recorded fire
 * calls sdt_append_fire.
 */
int sdt_observe_load(struct sdt_provider *provider, uintptr_t sites);
void sdt_observe_unload(struct sdt_provider *provider);
void sdt_append_fire(const SDTProbe_t *probe, uintptr_t entry, const uint64_t *values, int count);
void sdt_program_prepare(void);
void sdt_tracer_await(const char *provider);

#include "image.h"

/* elflib.c: libelf's functions, which elflib.h has in a table. */
bool sdt_has_libelf(void);

#endif
