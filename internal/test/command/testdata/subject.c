/* A program with the macros of <sys/sdt.h>, and semaphores. It fires as often as it is told on
 * standard input, says what its semaphores are, and forks:
 *
 *	fire N   semaphores   fork N   texts   wait (until the semaphore of other is raised)
 *
 * and prints "ok" after each. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEMAPHORE(name) unsigned short name##_semaphore __attribute__((section(".probes")))
SEMAPHORE(csubject_work);
SEMAPHORE(csubject_other);
SEMAPHORE(csubject_text);

static double halves;
static volatile unsigned long long large = 1ULL << 63;
static const char *const texts[] = {"", "a", "text", "a longer text"};

/* Two sites of one name, whose operands differ: a register and memory. */
static void __attribute__((noinline)) work(int n, const char *text, volatile short *small) {
	STAP_PROBE5(csubject, work, n, text, *small, large, halves);
	if (n % 2)
		STAP_PROBE5(csubject, work, -n, text, 7, 1, halves);
	halves += 0.5;
}

static void fire(int count) {
	for (int i = 0; i < count; i++) {
		volatile short small = (short)(-i);
		if (csubject_work_semaphore)
			work(i, texts[i % 4], &small);
		if (csubject_other_semaphore)
			STAP_PROBE(csubject, other);
	}
}

/* A text in a page that nothing has read yet, one that crosses into such a page, and addresses
 * where nothing is. */
static int fire_texts(void) {
	int fd = open("/proc/self/exe", O_RDONLY);
	long page = sysconf(_SC_PAGESIZE);
	char *elf = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
	char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fd < 0 || elf == MAP_FAILED || two == MAP_FAILED)
		return 2;
	memcpy(two + page - 3, "end", 3); /* the second page is not there, and will be zero */
	STAP_PROBE1(csubject, text, elf + 1);
	STAP_PROBE1(csubject, text, two + page - 3);
	STAP_PROBE1(csubject, text, NULL);
	STAP_PROBE1(csubject, text, (char *)16);
	munmap(elf, page);
	munmap(two, 2 * page);
	return close(fd);
}

int main(void) {
	char line[80], word[80];
	int n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		n = 0;
		if (sscanf(line, "%79s %d", word, &n) < 1)
			return 2;
		if (!strcmp(word, "fire")) {
			fire(n);
		} else if (!strcmp(word, "semaphores")) {
			printf("semaphores %d %d\n", csubject_work_semaphore, csubject_other_semaphore);
		} else if (!strcmp(word, "wait")) {
			while (!*(volatile unsigned short *)&csubject_other_semaphore)
				usleep(1000);
		} else if (!strcmp(word, "texts")) {
			if (fire_texts() != 0)
				return 2;
		} else if (!strcmp(word, "fork")) {
			pid_t pid = fork();
			if (pid == 0) {
				fire(n);
				_exit(0);
			}
			printf("child %d\n", (int)pid);
			if (pid < 0 || waitpid(pid, NULL, 0) != pid)
				return 2;
		} else {
			return 2;
		}
		puts("ok");
	}
	return 0;
}
