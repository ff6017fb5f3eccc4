/* The process that owns a file: whether it is this one, and whether it is alive. */
#include "private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * is_process_alive reports whether the process has not ended. A zombie, which has
 * ended but has not been waited for, is not alive.
 */
static bool is_process_alive(pid_t pid)
{
	char path[32], line[1024];
	const char *after;

	if (kill(pid, 0) != 0 && errno == ESRCH)
		return false;
	snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
	(void)sdt_file_read(path, line, sizeof line);
	after = strrchr(line, ')'); /* the name before it may have any character */
	return !after || (strncmp(after, ") Z", 3) != 0 && strncmp(after, ") X", 3) != 0);
}

struct sdt_process sdt_this_process(void)
{
	struct sdt_process self = {.pid = getpid()};
	char link[32] = "";

	/* "pid:[4026531836]", which the kernel reads in half the time of a stat */
	if (readlink("/proc/self/ns/pid", link, sizeof link - 1) > 0)
		sscanf(link, "pid:[%lu]", &self.namespace);
	return self;
}

bool sdt_is_elsewhere(const struct sdt_process *process)
{
	struct sdt_process self = sdt_this_process();

	if (self.namespace != process->namespace)
		return true;
	return self.pid != process->pid && is_process_alive(process->pid);
}
