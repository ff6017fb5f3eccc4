/* What usdt.bpf.c tells usdt.c. */
#define MAX_ARGS 12
#define MAX_TEXT 32

struct event {
	long long args[MAX_ARGS];
	char texts[MAX_ARGS][MAX_TEXT]; /* of the arguments that are strings */
};
