/* A program whose main thread ends when a line "end" comes. The rest of the program is another
 * thread, which fires PROVIDER:hit as often as a line "fire N" says, and prints "ok". */
#include <sys/sdt.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

static sem_t end;

static void *work(void *unused) {
	char line[80];
	int n;

	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "fire %d", &n) == 1) {
			for (int i = 0; i < n; i++)
				DTRACE_PROBE1(PROVIDER, hit, i);
		} else {
			sem_post(&end);
		}
		puts("ok");
	}
	exit(0);
	return unused;
}

int main(void) {
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (sem_init(&end, 0, 0) != 0 || pthread_create(&thread, NULL, work, NULL) != 0)
		return 2;
	sem_wait(&end);
	pthread_exit(NULL);
}
