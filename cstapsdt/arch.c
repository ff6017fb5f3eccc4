/*
 * The architectures and their nops, as tables made from arch.def. The file arch.def is
 * included once for each kind of row, because the later tables refer to the earlier ones.
 */
#include "private.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define SDT_ARCH(...)
#define SDT_NOP(...)
#define SDT_DWARF(...)
#define SDT_REGISTERS(arch, ...) static const char *const registers_##arch[] = {__VA_ARGS__, NULL};
#define SDT_STACK(arch, format, first)                                                            \
	enum { stack_first_##arch = (first) };                                                     \
	static int stack_##arch(char *out, size_t size, unsigned offset)                           \
	{                                                                                          \
		return snprintf(out, size, format, stack_first_##arch + offset);                   \
	}
#include "arch.def"
#undef SDT_REGISTERS
#undef SDT_STACK
#undef SDT_DWARF

#define SDT_REGISTERS(...)
#define SDT_STACK(...)

#define BYTES(...) ((const unsigned char[]){__VA_ARGS__})
#define SDT_DWARF(arch, stack, ...)                                                               \
	{#arch, BYTES(__VA_ARGS__), sizeof BYTES(__VA_ARGS__), stack, stack_first_##arch},
static const struct sdt_registers registers[] = {
#include "arch.def"
};
#undef SDT_ARCH
#undef SDT_NOP
#undef SDT_DWARF

#define SDT_DWARF(...)

#define SDT_ARCH(...)
#define SDT_NOP(arch, name, code, split) {#arch, #name, code, sizeof(code) - 1, split},
static const struct sdt_nop nops[] = {
#include "arch.def"
};
#undef SDT_ARCH
#undef SDT_NOP

#define SDT_NOP(...)
#define SDT_ARCH(name, machine, flags, class, data, hash, page, ret, fill, entry)                 \
	{#name, machine, flags, class, data, hash, page, ret, sizeof(ret) - 1, fill, entry,        \
	 sizeof(entry) - 1, registers_##name, stack_##name},
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

/* sdt_registers_find returns NULL if the images of the architecture have no DWARF. */
const struct sdt_registers *sdt_registers_find(const struct sdt_arch *arch)
{
	for (size_t i = 0; i < COUNT(registers); i++)
		if (strcmp(registers[i].arch, arch->name) == 0)
			return &registers[i];
	return NULL;
}

/*
 * sdt_nop_find returns the nop of that name. If name is NULL, it returns the nop to
 * which every kernel attaches.
 */
const struct sdt_nop *sdt_nop_find(const char *arch, const char *name)
{
	for (size_t i = 0; i < COUNT(nops); i++)
		if (strcmp(nops[i].arch, arch) == 0 && (!name || strcmp(nops[i].name, name) == 0))
			return &nops[i];
	return NULL;
}

/* sdt_nop_names writes the names of the nops: "nop1, nop5, nop10", for example. */
void sdt_nop_names(const char *arch, char *out, size_t size)
{
	const char *comma = "";
	size_t at = 0;

	for (size_t i = 0; i < COUNT(nops) && at < size; i++) {
		if (strcmp(nops[i].arch, arch) != 0)
			continue;
		at += (size_t)snprintf(out + at, size - at, "%s%s", comma, nops[i].name);
		comma = ", ";
	}
}

/* sdt_arch_operands writes where a tracer finds the first count arguments at a site. */
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
