/*
 * libstapsdt: USDT (SystemTap SDT) trace points, created at run time.
 *
 *	SDTProvider_t *app = providerInit("myapp");
 *	SDTProbe_t *done = providerAddProbe(app, "request__done", 2, uint64, int32);
 *
 *	if (providerLoad(app) != 0)
 *		fprintf(stderr, "%s\n", providerError(app));
 *	...
 *	if (probeIsEnabled(done))
 *		probeFire(done, (uint64_t)(uintptr_t)path, (uint64_t)status);
 *	...
 *	providerDestroy(app);
 *
 *	# bpftrace -p PID -e 'usdt:*:myapp:request__done { printf("%s %d\n", str(arg0), arg1); }'
 *
 * Lifecycle. A provider is a name and a list of probes. Add the probes, then
 * load: the library writes one shared object that describes them and loads it
 * into this process, where tracers find it. Unload takes it away again, after
 * which probes may be added and the provider may be loaded anew. Destroy frees
 * the provider with all of its probes. Until its provider is loaded, and after
 * it was unloaded, a probe does nothing. When loading fails the program may go
 * on, with probes that do nothing.
 *
 *	providerInit
 *	     |
 *	     v
 *	providerAddProbe  <----------+
 *	     |                       |
 *	     v                       |
 *	providerLoad                 |
 *	     |                       |
 *	     v                       |
 *	probeIsEnabled, probeFire    |    as often as you like, from any thread
 *	     |                       |
 *	     v                       |
 *	providerUnload  -------------+
 *	     |
 *	     v
 *	providerDestroy
 *
 * Failure. A function that returns int returns 0, or -1 when it failed, except
 * for probeIsEnabled, which reports 1 or 0; one that returns a pointer returns
 * NULL. Then `errno` and `error` of the provider hold the kind of the failure
 * and one line that says what could not be done and why. They tell of the last
 * call to providerAddProbe, providerAddProbeV, providerLoad, providerUnload,
 * providerUseMemfd or providerImage on this provider: a call that succeeds
 * sets them to noError and NULL. The line belongs to the provider and lives
 * until the next of these calls. A failed call changes nothing else, with the
 * exception that providerUnload documents. Every function survives NULL.
 *
 * errno. After <errno.h> that word is a macro, and `provider->errno` does not
 * compile. Use providerErrno(provider), which works everywhere.
 *
 * Threads. Different providers may be used by different threads at once. Calls
 * on one provider need a lock, or one thread; but any number of threads may
 * fire and test probes of a loaded provider. The caller sees to it that no
 * thread fires a probe while its provider is unloaded or destroyed.
 *
 * Cost. A probe that nobody traces costs a few instructions: the values passed
 * to probeFire are computed, but not read. Where computing them is expensive,
 * ask probeIsEnabled first. A traced probe costs what the kernel needs for a
 * uprobe.
 *
 * Tracers. bpftrace -p, bcc and gdb find a loaded provider in either place
 * that providerUseMemfd chooses. perf, and bpftrace from 0.25 on, need a file:
 * memfd_disabled. A name with a colon, space, comma, quote, wildcard or brace
 * is taken here, but cannot be written in a tracer's command; perf takes
 * letters, digits and underscores only.
 *
 * Platforms. Linux on x86-64 and on little-endian AArch64. Experimental, for
 * want of a kernel to trace them on: RISC-V with 64 bits, s390x, little-endian
 * POWER (ELFv2), i386 and little-endian ARM (EABI). Elsewhere it compiles, and
 * providerLoad fails. The values passed to probeFire have 64 bits everywhere.
 */
#ifndef LIBSTAPSDT_H
#define LIBSTAPSDT_H

#include <stddef.h>
#include <stdint.h>

/* The most arguments of a probe defined by providerAddProbe, and by providerAddProbeV. */
#define MAX_ARGUMENTS 6
#define SDT_MAX_ARGUMENTS 12

#if defined(__GNUC__)
#define SDT_API __attribute__((visibility("default")))
#else
#define SDT_API
#endif

/* <errno.h> makes a macro of the name of one member below. */
#pragma push_macro("errno")
#undef errno

#ifdef __cplusplus
extern "C" {
#endif

/* What kind of failure it was. */
typedef enum {
	noError = -1,
	elfCreationError = 0,        /* the definition, or the making of the image */
	tmpCreationError = 1,        /* the file or memfd that holds the image */
	sharedLibraryOpenError = 2,  /* loading it */
	symbolLoadingError = 3,      /* finding the trace points in what was loaded */
	sharedLibraryCloseError = 4  /* unloading it */
} SDTError_t;

/* An argument's size in bytes, negative where it is signed. A pointer is a uint64. */
typedef enum {
	noarg = 0, /* not a type that a probe can have */
	uint8 = 1,
	int8 = -1,
	uint16 = 2,
	int16 = -2,
	uint32 = 4,
	int32 = -4,
	uint64 = 8,
	int64 = -8
} ArgType_t;

/* Where a loaded provider lives: in a file in /tmp, or in memory. */
typedef enum {
	memfd_disabled = 0,
	memfd_enabled = 1
} MemFDOption_t;

struct SDTProvider;

/*
 * A probe. Made by providerAddProbe only: private data follows the members,
 * and those whose names begin with an underscore are not to be written.
 */
typedef struct SDTProbe {
	char *name;
	ArgType_t argFmt[MAX_ARGUMENTS]; /* the first types; noarg after the last */
	void *_fire;                     /* the trace point, NULL unless loaded */
	struct SDTProvider *provider;
	int argCount;                    /* up to SDT_MAX_ARGUMENTS */
} SDTProbe_t;

/* The probes of a provider, in the order of their definition. */
typedef struct SDTProbeList_ {
	SDTProbe_t probe;
	struct SDTProbeList_ *next;
} SDTProbeList_t;

/* A provider. Made by providerInit only, as above. */
typedef struct SDTProvider {
	char *name;
	SDTProbeList_t *probes;
	SDTError_t errno;         /* see providerErrno */
	char *error;              /* see providerError */
	void *_handle;            /* dlopen's, NULL unless loaded */
	char *_filename;          /* what was opened, NULL unless loaded */
	int _memfd;               /* the memfd's descriptor, or -1 */
	MemFDOption_t _use_memfd;
} SDTProvider_t;

/*
 * providerInit makes a provider without probes. The name is copied, and so are
 * all names below. NULL when the name is NULL or empty or memory is short.
 */
SDT_API SDTProvider_t *providerInit(const char *name);

/*
 * providerAddProbe defines a probe. argCount, at most MAX_ARGUMENTS, is the
 * number of ArgType_t that follow it. The provider must not be loaded. The
 * probe belongs to the provider.
 *
 * A name that the provider has already, with the same types, makes a second
 * trace point of the same event: a tracer attaches to both. With other types
 * it is refused. The code of every failure is elfCreationError.
 */
SDT_API SDTProbe_t *providerAddProbe(SDTProvider_t *provider, const char *name, int argCount, ...);

/*
 * providerAddProbeV is providerAddProbe with the types in an array, at most
 * SDT_MAX_ARGUMENTS of them. types may be NULL when argCount is 0.
 */
SDT_API SDTProbe_t *providerAddProbeV(SDTProvider_t *provider, const char *name, int argCount,
				      const ArgType_t *types);

/*
 * providerUseMemfd chooses where providerLoad puts the shared object:
 * memfd_enabled, the default, in memory; memfd_disabled in a file named
 * /tmp/NAME-XXXXXX.so, which lives until the provider is unloaded, and stays
 * when the process ends before. -1 when the provider is loaded or the option
 * unknown (elfCreationError).
 */
SDT_API int providerUseMemfd(SDTProvider_t *provider, const MemFDOption_t use_memfd);

/*
 * providerLoad makes the probes visible to tracers. A slash in the provider's
 * name fails with tmpCreationError, and so does a name longer than 249 bytes
 * in memory, or, in a file, one longer than the file system takes or with a
 * dollar sign. Loading a loaded provider fails with sharedLibraryOpenError.
 */
SDT_API int providerLoad(SDTProvider_t *provider);

/*
 * providerUnload takes the probes away from tracers, closes the memfd or
 * removes the file. A child that was forked from the process that loaded it
 * leaves the file to that one, while it lives. sharedLibraryCloseError when the
 * provider is not loaded, when somebody else closed its handle, or when the file
 * could not be removed; in the last two cases the provider is unloaded all the
 * same. Where dlclose unloads nothing, as in musl, the probes are gone for
 * tracers, but what was mapped stays, at each load more.
 */
SDT_API int providerUnload(SDTProvider_t *provider);

/* providerDestroy unloads the provider when it is loaded, and frees it and its probes. */
SDT_API void providerDestroy(SDTProvider_t *provider);

/*
 * probeFire passes the trace point with argCount values. Pass every value as
 * 64 bits, whatever the type's size: an integer constant needs a cast to
 * uint64_t. A tracer reads as many low bytes as the type has.
 */
SDT_API void probeFire(SDTProbe_t *probe, ...);

/*
 * probeFireV is probeFire with the values in an array of argCount words. When
 * values is NULL, a probe that has arguments is not fired.
 */
SDT_API void probeFireV(SDTProbe_t *probe, const uint64_t *values);

/*
 * probeIsEnabled reports whether a tracer is attached to the probe in this
 * process. The answer may be outdated by the time it is returned.
 */
SDT_API int probeIsEnabled(SDTProbe_t *probe);

/*
 * providerImage makes the shared object that providerLoad would load, as bytes
 * in memory that the caller frees with free(). Equal providers have equal
 * images. The provider may be loaded or not.
 */
SDT_API int providerImage(SDTProvider_t *provider, void **image, size_t *size);

/*
 * probeOffset is the trace point's offset in the last image that providerImage
 * or providerLoad made, in bytes: what the kernel's uprobe interfaces ask for.
 * -1 when there was none, or when the probe was added later. Not for a copy of
 * an SDTProbe_t, which lacks the private data.
 */
SDT_API int64_t probeOffset(const SDTProbe_t *probe);

/* providerErrno is the last call's code; elfCreationError for NULL. */
SDT_API SDTError_t providerErrno(const SDTProvider_t *provider);

/* providerError is the last call's line of error, "" when there is none. Never NULL. */
SDT_API const char *providerError(const SDTProvider_t *provider);

#ifdef __cplusplus
}
#endif

#pragma pop_macro("errno")

#endif
