/* A system call in which a thread is held until the test lets it go on. */
#ifndef HOLD_H
#define HOLD_H

#include "test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifdef SYS_unlink
enum { HOLD_UNLINK = SYS_unlink };
#else
enum { HOLD_UNLINK = SYS_unlinkat };
#endif

/* hold_call holds the calling thread, and those that it creates, in a system call. It returns a descriptor, or -1. */
static inline int hold_call(unsigned number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof code[0], code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* hold_wait waits until a thread makes the call. */
static inline uint64_t hold_wait(int fd)
{
	struct seccomp_notif call = {0};

	CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0);
	return call.id;
}

static inline void hold_release(int fd, uint64_t id)
{
	struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
}

#endif
