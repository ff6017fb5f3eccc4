/*
 * Prints what libbpf makes of the arguments of notes, one line of them for each line of
 * the input. It includes libbpf's source, because its parser is not part of its interface.
 */
#include <stdio.h>
#include <string.h>

#include "usdt.c"

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level, (void)format, (void)args;
	return 0;
}

int main(void)
{
	static const char *const kinds[] = { "constant", "register", "memory" };
	char line[4096];

	libbpf_set_print(quiet);
	while (fgets(line, sizeof(line), stdin)) {
		struct usdt_note note = { .provider = "p", .name = "n", .args = line };
		struct usdt_spec spec;
		int i, error;

		line[strcspn(line, "\n")] = '\0';
		memset(&spec, 0, sizeof(spec));
		error = parse_usdt_spec(&spec, &note, 0);
		if (error) {
			puts("refused");
			continue;
		}
		for (i = 0; i < spec.arg_cnt; i++) {
			const struct usdt_arg_spec *a = &spec.args[i];

			printf("%s%d:%s:%lld:%d", i ? " " : "", (64 - a->arg_bitshift) / 8 * (a->arg_signed ? -1 : 1),
			       kinds[a->arg_type], (long long)a->val_off, a->arg_type == USDT_ARG_CONST ? 0 : a->reg_off);
		}
		putchar('\n');
	}
	return 0;
}
