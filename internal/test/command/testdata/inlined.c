/* A probe in leaf, which is inlined in middle, which is inlined in outer. */
#include <stdio.h>
#include <sys/sdt.h>

static inline __attribute__((always_inline)) void leaf(int i) {
	DTRACE_PROBE1(inlined, hit, i);
}

static inline __attribute__((always_inline)) void middle(int i) {
	leaf(i + 1);
}

static __attribute__((noinline)) void call(void) {
	__asm__ volatile("");
}

/* Without a call, it would have no frame. */
__attribute__((noinline)) void outer(int i) {
	call();
	middle(i * 2);
	__asm__ volatile("");
}

int main(void) {
	char line[16];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		outer(line[0]);
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
