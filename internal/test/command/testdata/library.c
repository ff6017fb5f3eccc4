/* With -DVALUE, a library with a probe and a value in one page of code, and otherwise a program that
 * loads the library that its argument names, and for each line of standard input fires the probe,
 * prints the value and "ok". */
#ifdef VALUE
#include <sys/sdt.h>

int value(void) {
	DTRACE_PROBE(library, hit);
	return VALUE;
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **args) {
	void *library = count > 1 ? dlopen(args[1], RTLD_NOW) : NULL;
	int (*value)(void) = library ? (int (*)(void))dlsym(library, "value") : NULL;
	char line[16];
	if (!value)
		return 2;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		printf("value %d\nok\n", value());
		fflush(stdout);
	}
	_exit(0); /* The library's own code for the end may be gone. */
}
#endif
