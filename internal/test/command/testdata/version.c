/* A program of which there are several versions: version FIRES MILLISECONDS waits, or reads a line if
 * MILLISECONDS is "-", fires PROVIDER:hit and computes sums. Version 0 has no probe. The site of each version is inside of the sum of every
 * later one, in a constant: if a tracer of one version changes the next one, its sums are wrong. */
#include <sys/sdt.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TERMS 64
#define TEXT(x) #x
#define REPEAT(n) TEXT(n)

#if defined(__x86_64__)
#define ADD "movabs $0x4141414141414141, %%rcx\n add %%rcx, %0\n"
#define USED "rcx"
#else
#define ADD "movz x9, #0x4141\n movk x9, #0x4141, lsl #16\n movk x9, #0x4141, lsl #32\n movk x9, #0x4141, lsl #48\n add %0, %0, x9\n"
#define USED "x9"
#endif

#define COUNT (TERMS * VERSION + 1)

static __attribute__((noinline)) int wrong_sum(void) {
	unsigned long sum = 0;
	__asm__ volatile(".rept 2 * " REPEAT(VERSION) "\n nop\n .endr\n"
			 ".rept " REPEAT(COUNT) "\n" ADD ".endr" : "+r"(sum) : : USED);
	return sum != COUNT * 0x4141414141414141UL;
}

int main(int count, char **args) {
	if (count < 3)
		return 2;
	int wrong = 0;
	if (*args[2] == '-')
		getchar();
	else
		usleep(1000 * atoi(args[2]));
	for (int i = 0; i < atoi(args[1]); i++) {
#if VERSION > 0
		DTRACE_PROBE1(PROVIDER, hit, i);
#endif
		wrong += wrong_sum();
		usleep(100);
	}
	wrong += wrong_sum();
	printf("wrong sums %d\n", wrong);
	return 0;
}
