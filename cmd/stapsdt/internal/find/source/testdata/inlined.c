#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static inline __attribute__((always_inline)) int leaf(int i) { return i * 3 + (i & 7 ? printf("%d\n", i) : rand()); }
static inline __attribute__((always_inline)) int middle(int i) {
	int s = 0;
	for (int k = 0; k < i; k++) {
		int q = leaf(k + 1);
		s += q;
	}
	return s + leaf(i);
}
static int helper(int x) { return x < 3 ? x : helper(x - 1) * 2 + middle(x); }
__attribute__((noinline)) int outer(int i) { return middle(i * 2) + middle(i) + helper(i); }
int main(int n, char **v) {
	if (n > 1 && !strcmp(v[1], "x")) abort();
	return outer(n);
}
