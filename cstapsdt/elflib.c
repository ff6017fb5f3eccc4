/* The functions of libelf: linked with the C library, but found at run time in a Go program. */
#include "private.h"

#include "elflib.h"

#ifdef SDT_WITHOUT_LIBELF

bool sdt_has_libelf(void)
{
	return false;
}

#else

bool sdt_has_libelf(void)
{
	return sdt_libelf() != NULL;
}

#ifndef SDT_IN_GO

const struct sdt_libelf *sdt_libelf(void)
{
	static const struct sdt_libelf linked = {
#define X(function) .function = function,
		SDT_LIBELF_FUNCTIONS(X)
#undef X
	};

	return &linked;
}

#else

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

static struct sdt_libelf functions;
static bool functions_found;

static int main_program_is_dynamic(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			*(bool *)data = true;
	return 1; /* the first object is the program, and the others are not needed */
}

/*
 * may_open_library reports whether the dynamic loader has started the program. A
 * statically linked program has a dlopen too, but it would load a second C library.
 */
static bool may_open_library(void)
{
	bool dynamic = false;

	dl_iterate_phdr(main_program_is_dynamic, &dynamic);
	return dynamic;
}

/*
 * find_function stores the address through a pointer to data, because ISO C does not
 * convert a pointer to data into a pointer to a function.
 */
static bool find_function(void *library, const char *name, void *function)
{
	void *address = dlsym(library, name);

	memcpy(function, &address, sizeof address);
	return address != NULL;
}

/* find_libelf does not close the library, because the table points into it. */
static void find_libelf(void)
{
	void *library = may_open_library() ? dlopen("libelf.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!library)
		return;
	functions_found = true;
#define X(function) functions_found &= find_function(library, #function, &functions.function);
	SDT_LIBELF_FUNCTIONS(X)
#undef X
}

const struct sdt_libelf *sdt_libelf(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_libelf);
	return functions_found ? &functions : NULL;
}

#endif
#endif
