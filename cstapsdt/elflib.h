/* The functions of libelf in a table: they are linked, or found at run time. */
#ifndef SDT_ELFLIB_H
#define SDT_ELFLIB_H

/*
 * There is no table without libelf's headers, nor with the memory sanitizer: libelf is
 * built without it, so it would report every byte that libelf has written.
 */
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define SDT_WITHOUT_LIBELF
#endif
#endif
#if !__has_include(<gelf.h>)
#define SDT_WITHOUT_LIBELF
#endif

#ifndef SDT_WITHOUT_LIBELF

#include <gelf.h>

/* X(function) for each function that the library uses. */
#define SDT_LIBELF_FUNCTIONS(X)                                                                    \
	X(elf_version)                                                                             \
	X(elf_errno)                                                                               \
	X(elf_errmsg)                                                                              \
	X(elf_begin)                                                                               \
	X(elf_end)                                                                                 \
	X(elf_update)                                                                              \
	X(elf_newscn)                                                                              \
	X(elf_getscn)                                                                              \
	X(elf_newdata)                                                                             \
	X(elf32_getehdr)                                                                           \
	X(elf64_getehdr)                                                                           \
	X(elf32_getphdr)                                                                           \
	X(elf64_getphdr)                                                                           \
	X(elf32_getshdr)                                                                           \
	X(elf64_getshdr)                                                                           \
	X(gelf_newehdr)                                                                            \
	X(gelf_getehdr)                                                                            \
	X(gelf_update_ehdr)                                                                        \
	X(gelf_newphdr)                                                                            \
	X(gelf_update_phdr)                                                                        \
	X(gelf_getshdr)                                                                            \
	X(gelf_update_shdr)                                                                        \
	X(gelf_fsize)                                                                              \
	X(gelf_xlatetof)

struct sdt_libelf {
#define X(function) __typeof__(&function) function;
	SDT_LIBELF_FUNCTIONS(X)
#undef X
};

/* sdt_libelf returns the table, or NULL if libelf is not available. */
const struct sdt_libelf *sdt_libelf(void);

#endif

#endif
