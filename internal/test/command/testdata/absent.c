/* A program that fires begin or end twice for each line of standard input that names one of them. The text of the first
 * event is in a page that userfaultfd holds back, as a slow disk would, until the second event has been fired by another
 * thread on the same processor. "resident" fires begin with texts that are there. */
#define _GNU_SOURCE
#include <sys/sdt.h>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { page_size = 4096 };

static int at_end;
static char content[page_size] __attribute__((aligned(page_size)));

static void __attribute__((noinline)) fire(long number, const char *text) {
	if (at_end)
		STAP_PROBE2(absent, end, number, text);
	else
		STAP_PROBE2(absent, begin, number, text);
}

static void *fire_absent(void *page) {
	fire(111, (char *)page + 16);
	return NULL;
}

static int round_of_events(int uffd) {
	char *page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register wanted = {.range = {(unsigned long)page, page_size}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	struct uffdio_copy copy = {.dst = (unsigned long)page, .src = (unsigned long)content, .len = page_size};
	struct pollfd fault = {.fd = uffd, .events = POLLIN};
	struct uffd_msg message;
	pthread_t other;

	if (page == MAP_FAILED || ioctl(uffd, UFFDIO_REGISTER, &wanted) || pthread_create(&other, NULL, fire_absent, page))
		return 1;
	if (poll(&fault, 1, -1) != 1 || read(uffd, &message, sizeof message) != sizeof message)
		return 1;
	fire(222, "resident");
	return ioctl(uffd, UFFDIO_COPY, &copy) || pthread_join(other, NULL) || munmap(page, page_size);
}

int main(void) {
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	cpu_set_t one;
	char line[16];

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	strcpy(content + 16, "absent");
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || sched_setaffinity(0, sizeof one, &one)) {
		perror("absent");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		at_end = line[0] == 'e';
		if (line[0] == 'r') {
			fire(111, content + 16);
			fire(222, "resident");
		} else if (round_of_events(uffd)) {
			return 1;
		}
		puts("ok");
		fflush(stdout);
	}
	return 0;
}
