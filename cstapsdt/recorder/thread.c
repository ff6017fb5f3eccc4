/* The thread that fires: its number, by which it finds its shard. */
#include "recorder.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread uint32_t sdt_thread_number SDT_THREAD_MODEL;

uint32_t sdt_thread_ask(void)
{
	sdt_thread_number = (uint32_t)syscall(SYS_gettid);
	return sdt_thread_number;
}

/*
 * sdt_thread_forked is called in a forked child, because its thread has another number.
 */
void sdt_thread_forked(void) { sdt_thread_number = 0; }

/* sdt_thread_alive reports whether this process has a thread of that number. */
bool sdt_thread_alive(uint32_t thread)
{
	int reason = errno;
	bool alive = syscall(SYS_tgkill, getpid(), (pid_t)thread, 0) == 0 || errno != ESRCH;

	errno = reason;
	return alive;
}

/*
 * sdt_cancel_hold delays a cancellation of the thread until sdt_cancel_release, which takes its
 * result. A thread that is cancelled meanwhile would leave a lock taken. A fire has no other
 * cancellation points.
 */
int sdt_cancel_hold(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

void sdt_cancel_release(int before) { (void)pthread_setcancelstate(before, &before); }
