/* arch.def, read once for each kind of row, as the later ones refer to the earlier. */
#include "private.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define SDT_ARCH(...)
#define SDT_SITE(...)
#define SDT_REGISTERS(arch, ...) static const char *const registers_##arch[] = {__VA_ARGS__};
#define SDT_STACK(arch, format, first)                                                            \
	static int stack_##arch(char *out, size_t size, unsigned slot)                             \
	{                                                                                          \
		return snprintf(out, size, format, (first) + 8U * slot);                           \
	}
#include "arch.def"
#undef SDT_ARCH
#undef SDT_SITE
#undef SDT_REGISTERS
#undef SDT_STACK

#define SDT_REGISTERS(...)
#define SDT_STACK(...)

#define SDT_ARCH(...)
#define SDT_SITE(arch, name, nop) {#arch, #name, nop, sizeof(nop) - 1},
static const struct sdt_site sites[] = {
#include "arch.def"
};
#undef SDT_ARCH
#undef SDT_SITE

#define SDT_SITE(...)
#define SDT_ARCH(name, machine, page, ret, fill)                                                  \
	{#name,           machine,                  page,        ret, sizeof(ret) - 1, fill,       \
	 registers_##name, COUNT(registers_##name), stack_##name},
static const struct sdt_arch archs[] = {
#include "arch.def"
};

const struct sdt_arch *sdt_arch_find(const char *name)
{
	for (size_t i = 0; i < COUNT(archs); i++)
		if (strcmp(archs[i].name, name) == 0)
			return &archs[i];
	return NULL;
}

/* sdt_site_find finds a kind of site by its name; without one, the one that every kernel takes. */
const struct sdt_site *sdt_site_find(const char *arch, const char *name)
{
	for (size_t i = 0; i < COUNT(sites); i++)
		if (strcmp(sites[i].arch, arch) == 0 && (!name || strcmp(sites[i].name, name) == 0))
			return &sites[i];
	return NULL;
}

/* sdt_arch_operands writes where the first count arguments are found at a trace point. */
void sdt_arch_operands(const struct sdt_arch *arch, struct sdt_operands *operands, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *out = operands->text[i];

		if (i < arch->register_count)
			snprintf(out, sizeof operands->text[i], "%s", arch->registers[i]);
		else
			arch->stack(out, sizeof operands->text[i],
				    (unsigned)(i - arch->register_count));
		operands->size[i] = strlen(out);
	}
}
