/*
 * The choice of the nop: the one to which every kernel attaches, or the fastest on this
 * kernel.
 */
#include "private.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__)

#define NR_UPROBE 336

/*
 * has_filter reports whether this thread may have a seccomp filter, which could kill
 * the process for a system call that it does not know. It returns true if it cannot
 * find out.
 */
static bool has_filter(void)
{
	static const char wanted[] = "\nSeccomp:\t0\n";
	char status[16384];

	(void)sdt_file_read("/proc/thread-self/status", status, sizeof status);
	return !strstr(status, wanted);
}

static const char *nop_of_release(void)
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
 * Since 6.18, the kernel turns some nops into a call to a trampoline, which makes the
 * uprobe system call. If the call is made from anywhere else, its error shows which nops
 * the kernel turns into calls.
 */
static const char *nop_of_kernel(void)
{
	if (has_filter())
		return nop_of_release();
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

/* There is only one nop. */
static const char *nop_of_kernel(void)
{
	return NULL;
}

#endif

/*
 * sdt_nop_fastest tests the kernel once. If threads race to test it, they agree on one of the
 * results.
 */
const struct sdt_nop *sdt_nop_fastest(void)
{
	static _Atomic(const struct sdt_nop *) chosen;
	const struct sdt_nop *nop = atomic_load(&chosen), *none = NULL;
	int reason;

	if (nop)
		return nop;
	reason = errno;
	nop = sdt_nop_find(SDT_HOST_ARCH, nop_of_kernel());
	errno = reason;
	return atomic_compare_exchange_strong(&chosen, &none, nop) ? nop : none;
}

/* sdt_nop_name returns the name of the fastest nop, or "" on an architecture without a nop. */
const char *sdt_nop_name(void)
{
	const struct sdt_nop *nop = sdt_nop_fastest();

	return nop ? nop->name : "";
}

/* find_nop records a failure and returns NULL if this architecture has no such nop. */
static const struct sdt_nop *find_nop(SDTProvider_t *provider, const char *name)
{
	const struct sdt_nop *nop = sdt_nop_find(SDT_HOST_ARCH, name);
	char names[64];

	if (nop)
		return nop;
	sdt_nop_names(SDT_HOST_ARCH, names, sizeof names);
	sdt_fail(provider, elfCreationError,
		 "make the image of %s: STAPSDT_SITE=%s: sites on " SDT_HOST_ARCH
		 " are %s, or fast", provider->name, name, names);
	return NULL;
}

/* sdt_nop_of reads STAPSDT_SITE at each load. An empty variable counts as none. */
const struct sdt_nop *sdt_nop_of(struct sdt_provider *provider)
{
	const char *name = secure_getenv("STAPSDT_SITE");
	bool named = name && *name;

	if (named ? strcmp(name, "fast") == 0 : provider->site == sdt_site_fast)
		return sdt_nop_fastest();
	return find_nop(&provider->api, named ? name : NULL);
}
