/*
 * Functions that are sites of probes: a note at the entry of each says so. describe_test.go
 * compiles this file with debugging information, and reads their parameters.
 */
#include <stdbool.h>
#include <stdint.h>

#define NOTE(function, arguments) NAMED(function, #function, arguments)
#define NAMED(function, name, arguments)                                       \
	__asm__(".pushsection .note.stapsdt, \"\", \"note\"\n"                 \
		".balign 4\n"                                                  \
		".4byte 992f - 991f, 994f - 993f, 3\n"                         \
		"991: .asciz \"stapsdt\"\n"                                    \
		"992: .balign 4\n"                                             \
		"993: .8byte " #function ", 0, 0\n"                            \
		".asciz \"app\"\n"                                             \
		".asciz \"" name "\"\n"                                        \
		".asciz \"" arguments "\"\n"                                   \
		"994: .balign 4\n"                                             \
		".popsection")

typedef int64_t duration;
typedef const char *text;
enum state { IDLE, BUSY };

struct go_string {
	const char *str;
	long len;
};

typedef struct request request;
struct request {
	struct go_string path;
	int status;
	unsigned urgent : 1, retries : 3;
	request *next;
	const struct request *const parent;
	double times[3][2];
	union {
		int number;
		float real;
	} value;
	void (*done)(request *);
};

struct opaque;

int request__done(const char *path, int status, duration elapsed, request *req)
{
	return path[0] + status + (int)elapsed + req->status;
}
NOTE(request__done, "8@%rdi -4@%esi -8@%rdx 8@%rcx");

int kinds(bool b, unsigned char u, short s, float f, enum state e, struct opaque *o)
{
	return b + u + s + (int)f + e + !o;
}
NOTE(kinds, "1@%dil 1@%sil -2@%dx 4f@%ecx 4@%r8d 8@%r9");

int strings(text t, char *const *list, const void *v, uint8_t *bytes, signed char *small)
{
	return t[0] + list[0][0] + !v + bytes[0] + small[0];
}
NOTE(strings, "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8");

/* More parameters than a tracer reads, and variables that are none. */
int eight(long a, long b, long c, long d, long e, long f, long g, long h)
{
	long local = a * b, other = c * d;
	return (int)(local + other + e + f + g + h);
}
NOTE(eight, "8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9 8@8(%rsp) 8@16(%rsp)");

/* What follows describes nothing: another name, another count, another size, no arguments. */
int another(long a)
{
	return (int)a * 3;
}
NAMED(another, "other", "8@%rdi");

int count(long a, long b)
{
	return (int)(a * b * 5);
}
NOTE(count, "8@%rdi");

int size(long a)
{
	return (int)a * 7;
}
NOTE(size, "4@%edi");

int none(void)
{
	return 9;
}
NOTE(none, "");
