/* A program whose site has two nops side by side, as libbpf's usdt.h documents it: the note
 * names the first, of one byte, and the second is the one that some kernels turn into a call.
 * It prints where they are, and fires as often as each line of standard input says. */
#include <stdio.h>

int twonops_sum;

/* NOP is the second nop, and ARGS may be arguments that every tracer reads. */
#ifndef ARGS
#define ARGS "-4@%0 -4@twonops_sum(%%rip)"
#endif

#define NOTE(provider, name, args)                                   \
	".pushsection .note.stapsdt,\"?\",\"note\"\n"                \
	".balign 4\n"                                                \
	".4byte 982f-981f, 984f-983f, 3\n"                           \
	"981: .asciz \"stapsdt\"\n"                                  \
	"982: .balign 4\n"                                           \
	"983: .8byte twonops_first, _.stapsdt.base, 0\n"             \
	".asciz \"" provider "\"\n .asciz \"" name "\"\n .asciz \"" args "\"\n" \
	"984: .balign 4\n"                                           \
	".popsection\n"                                              \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
	".weak _.stapsdt.base\n .hidden _.stapsdt.base\n"            \
	"_.stapsdt.base: .space 1\n .size _.stapsdt.base, 1\n"       \
	".popsection\n"

extern const char twonops_first[], twonops_second[];

static void __attribute__((noinline, noclone)) fire(int n) {
	twonops_sum += n;
	__asm__ volatile(
		".globl twonops_first, twonops_second\n"
		"twonops_first: .byte 0x90\n"
		"twonops_second: " NOP "\n"
		NOTE("twonops", "fired", ARGS)
		: : "r"(n) : "memory");
}

int main(void) {
	int count;

	printf("%p %p\n", (const void *)twonops_first, (const void *)twonops_second);
	puts("ready");
	fflush(stdout);
	while (scanf("%d", &count) == 1) {
		for (int i = 0; i < count; i++)
			fire(i);
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
