/* Which nop a site of this process has: the fastest that this kernel is known to attach to. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

_Atomic unsigned char sdt_site_idle;

#if defined(__x86_64__)

#define NR_UPROBE 336

/*
 * filtered reports whether a seccomp filter may see this thread's calls: it
 * could kill the process for one that it does not know. Where that cannot be
 * found out, it is true.
 */
static bool filtered(void)
{
	static const char wanted[] = "\nSeccomp:\t0\n";
	char status[16384];
	size_t size = 0;
	ssize_t n;
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return true;
	while ((n = read(fd, status + size, sizeof status - size)) > 0)
		size += (size_t)n;
	close(fd);
	return !memmem(status, size, wanted, sizeof wanted - 1);
}

static const char *by_release(void)
{
	struct utsname uts;
	unsigned major, minor;

	if (uname(&uts) != 0 || sscanf(uts.release, "%u.%u", &major, &minor) != 2)
		return "nop1";
	if (major > 7 || (major == 7 && minor >= 3))
		return "nop10";
	if (major == 7 || (major == 6 && minor >= 18))
		return "nop5";
	return "nop1";
}

/*
 * Since 6.18 the kernel turns some nops into a call to a trampoline, which
 * makes this system call. Made from anywhere else it fails, in a way that
 * tells which nops those are.
 */
static const char *best(void)
{
	if (filtered())
		return by_release();
	if (syscall(NR_UPROBE) != -1)
		return "nop1";
	switch (errno) {
	case ENXIO:
		return "nop5";
	case EPROTO:
		return "nop10";
	default:
		return "nop1";
	}
}

#else

/* The first row is the only one. */
static const char *best(void)
{
	return NULL;
}

#endif

/* choose: STAPSDT_SITE, a site's name, is for tests. */
static const struct sdt_site *choose(void)
{
	const char *name = secure_getenv("STAPSDT_SITE");
	const struct sdt_site *site = name ? sdt_site_find(SDT_HOST_ARCH, name) : NULL;

	if (site)
		return site;
	return sdt_site_find(SDT_HOST_ARCH, best());
}

/*
 * sdt_site_host chooses at its first call; when threads race for that, they
 * agree on one of their answers. NULL on an architecture without a row.
 */
const struct sdt_site *sdt_site_host(void)
{
	static _Atomic(const struct sdt_site *) chosen;
	const struct sdt_site *site = atomic_load(&chosen), *none = NULL;
	int reason;

	if (!site) {
		reason = errno;
		site = choose();
		errno = reason;
		if (!site)
			return NULL;
		if (!atomic_compare_exchange_strong(&chosen, &none, site))
			site = none;
	}
	/* Every caller: it publishes sites next, and the thread that chose may not be here yet. */
	atomic_store(&sdt_site_idle, (unsigned char)site->nop[0]);
	return site;
}

/* sdt_site_name is "nop5" for example; "" on an architecture without a row. */
const char *sdt_site_name(void)
{
	const struct sdt_site *site = sdt_site_host();

	return site ? site->name : "";
}
