/* arch.def, read once for each kind of row, as the later ones refer to the earlier. */
#include "private.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define SDT_ARCH(...)
#define SDT_SITE(...)
#define SDT_REGISTERS(arch, ...) static const char *const registers_##arch[] = {__VA_ARGS__, NULL};
#define SDT_STACK(arch, format, first)                                                            \
	static int stack_##arch(char *out, size_t size, unsigned offset)                           \
	{                                                                                          \
		return snprintf(out, size, format, (first) + offset);                              \
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
#define SDT_ARCH(name, machine, flags, class, data, hash, page, ret, fill)                        \
	{#name, machine, flags, class, data, hash, page, ret, sizeof(ret) - 1, fill,               \
	 registers_##name, stack_##name},
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
	const char *const *next = arch->registers;
	unsigned offset = 0;

	for (size_t i = 0; i < count; i++) {
		struct sdt_operand *whole = &operands->of[SDT_SIZES - 1][i];

		if (*next)
			snprintf(whole->text, sizeof whole->text, "%s", *next);
		else
			arch->stack(whole->text, sizeof whole->text, offset);
		whole->length = strlen(whole->text);
		for (unsigned size = 0; size < SDT_SIZES - 1; size++) {
			struct sdt_operand *part = &operands->of[size][i];

			*part = *whole;
			if (*next || !sdt_big_endian(arch))
				continue;
			arch->stack(part->text, sizeof part->text, offset + 8 - (1U << size));
			part->length = strlen(part->text);
		}
		if (*next)
			next++;
		else
			offset += 8;
	}
}
