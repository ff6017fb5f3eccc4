/* A plain <sys/sdt.h> program, which the harness is validated against: it does what it is told on standard input.
 * Values come from the command line of each order, so the compiler cannot fold them into the notes. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sdt.h>

/* A note for the label "site" before it, as sys/sdt.h writes them. */
#define NOTE(name, args)                        \
	".pushsection .note.stapsdt,\"\",\"note\"\n"  \
	".balign 4\n"                               \
	".4byte 992f-991f, 994f-993f, 3\n"          \
	"991: .asciz \"stapsdt\"\n"                 \
	"992: .balign 4\n"                          \
	"993: .8byte 990b, _.stapsdt.base, 0\n"     \
	".asciz \"demo\"\n"                         \
	".asciz \"" name "\"\n"                     \
	".asciz \"" args "\"\n"                     \
	"994: .balign 4\n"                          \
	".popsection\n"

/* stack_site(a, b): the operands are on the stack, as no compiler is sure to place them.
 * register_site(a, b): the operands are in the first two argument registers, at the kernel's five-byte nop. */
#if defined(__x86_64__)
#define FIVE_BYTE_NOP ".byte 0x0f, 0x1f, 0x44, 0, 0\n"
__asm__(".text\n"
        ".type stack_site, @function\n"
        "stack_site:\n"
        "subq $24, %rsp\n"
        "movq %rdi, 8(%rsp)\n"
        "movq %rsi, 16(%rsp)\n"
        "990: nop\n" NOTE("stack", "-4@8(%rsp) 8@16(%rsp)")
        "addq $24, %rsp\n"
        "ret\n"
        ".size stack_site, . - stack_site\n"
        ".type register_site, @function\n"
        "register_site:\n"
        "990: " FIVE_BYTE_NOP NOTE("register", "-2@%rdi 8@%rsi")
        "ret\n"
        ".size register_site, . - register_site\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".type stack_site, @function\n"
        "stack_site:\n"
        "stp x0, x1, [sp, #-16]!\n"
        "990: nop\n" NOTE("stack", "-4@[sp, 0] 8@[sp, 8]")
        "add sp, sp, #16\n"
        "ret\n"
        ".size stack_site, . - stack_site\n"
        ".type register_site, @function\n"
        "register_site:\n"
        "990: nop\n" NOTE("register", "-2@x0 8@x1")
        "ret\n"
        ".size register_site, . - register_site\n");
#endif

extern void stack_site(uint64_t a, uint64_t b);
extern void register_site(uint64_t a, uint64_t b);

static __attribute__((noinline)) void four(int8_t a, uint16_t b, int32_t c, uint64_t d)
{
	DTRACE_PROBE4(demo, four, a, b, c, d);
}

/* hop fires n times, on another processor each time. */
static void hop(int n)
{
	for (int i = 0; i < n; i++) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(i % 2, &set);
		sched_setaffinity(0, sizeof set, &set);
		stack_site(i, 0);
	}
}

int main(void)
{
	char line[256], order[32];
	long long v[4];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		memset(v, 0, sizeof v);
		if (sscanf(line, "%31s %lli %lli %lli %lli", order, v, v + 1, v + 2, v + 3) < 1)
			return 1;
		if (!strcmp(order, "four"))
			four(v[0], v[1], v[2], v[3]);
		else if (!strcmp(order, "stack"))
			stack_site(v[0], v[1]);
		else if (!strcmp(order, "register"))
			register_site(v[0], v[1]);
		else if (!strcmp(order, "loop"))
			for (long long i = 0; i < v[0]; i++)
				register_site(i, v[1]);
		else if (!strcmp(order, "hop"))
			hop(v[0]);
		else
			return 2;
		puts("done");
		fflush(stdout);
	}
	return 0;
}
