/* A thread that is held in a system call until the test lets it go on. */
#ifndef HOLD_H
#define HOLD_H

#include "test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifdef SYS_unlink
enum { HOLD_UNLINK = SYS_unlink };
#else
enum { HOLD_UNLINK = SYS_unlinkat };
#endif

/* A thread that runs a function, and the call in which it, and the threads that it creates, are held. */
struct hold {
	unsigned number;
	void (*run)(void);
	pthread_t thread;
	int fd, ready[2];
	uint64_t call;
};

static inline void *hold_run(void *argument)
{
	struct hold *hold = argument;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, hold->number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof code[0], code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		hold->fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
					&program);
	close(hold->ready[1]);
	if (hold->fd >= 0)
		hold->run();
	return NULL;
}

static inline void hold_wait(struct hold *hold)
{
	struct seccomp_notif call = {0};

	CHECK(ioctl(hold->fd, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0);
	hold->call = call.id;
}

/* hold_begin returns when the function makes the call, or false if that cannot be had. */
static inline bool hold_begin(struct hold *hold)
{
	char none;

	hold->fd = -1;
	CHECK(pipe(hold->ready) == 0);
	CHECK(pthread_create(&hold->thread, NULL, hold_run, hold) == 0);
	CHECK(read(hold->ready[0], &none, 1) == 0);
	close(hold->ready[0]);
	if (hold->fd >= 0)
		hold_wait(hold);
	return hold->fd >= 0;
}

/* hold_runs reports whether the function still runs, and hold_end waits until it does not. */
static inline bool hold_runs(struct hold *hold) { return pthread_tryjoin_np(hold->thread, NULL) != 0; }

static inline void hold_end(struct hold *hold)
{
	do {
		struct seccomp_notif_resp answer = {.id = hold->call, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
		struct pollfd again = {hold->fd, POLLIN, 0};

		/* The kernel forgets a call that was interrupted, and the thread makes it again. */
		CHECK(hold->call == 0 || ioctl(hold->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 ||
		      errno == ENOENT);
		hold->call = 0;
		if (poll(&again, 1, 10) == 1 && again.revents == POLLIN)
			hold_wait(hold);
	} while (hold_runs(hold));
	close(hold->fd);
}

#endif
