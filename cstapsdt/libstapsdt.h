/*
 * libstapsdt: USDT probes (SystemTap SDT), created at run time.
 *
 *	const SDTArgument_t arguments[] = {{"path", sdt_string}, {"status", int32}};
 *	SDTProvider_t *app = providerInit("myapp");
 *	SDTProbe_t *done = providerAddNamedProbe(app, "request__done", 2, arguments);
 *
 *	providerUseMemfd(app, memfd_disabled);
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
 * With memfd_disabled the probes are in a file. By default they are in memory,
 * where bpftrace -p does not find them from version 0.25 on.
 *
 * Lifecycle. A provider is a name and a list of probes. Add the probes, then
 * load the provider: the library builds an image, which is one shared object
 * with a site for each probe, to which tracers attach, and loads it into this
 * process, where they find it. Unloading the provider removes the image. After
 * that, more probes can be added, and the provider can be loaded again.
 * Destroying the provider frees it and all of its probes. A probe does nothing
 * until its provider is loaded, and after the provider is unloaded. If loading
 * fails, the program can continue, with probes that do nothing.
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
 * Failure. A function that returns int returns 0 on success and -1 on failure,
 * with three exceptions: providerUseMemfd returns 1 on success and 0 on failure,
 * probeIsEnabled returns 1 or 0 as its answer, and sdtVersion a number. A function that returns a
 * pointer returns NULL on failure. After a failure, the provider's `errno` holds
 * the kind of the failure, and its `error` holds one line that says what could
 * not be done and why. Both describe the last call to providerAddProbe,
 * providerAddProbeV, providerAddNamedProbe, providerLoad, providerUnload,
 * providerUseMemfd, providerUseSite or providerImage on this provider. A call
 * that succeeds sets them to noError and NULL. The line belongs to the provider
 * and is valid until the next of these calls. A failed call changes nothing
 * else, with one exception, which providerUnload documents. Every function
 * tolerates NULL.
 *
 * Names. If SDT_NO_SHORT_NAMES is defined before the header is included, all constants
 * begin with sdt or SDT, and names such as uint8 are the program's own: sdt_uint8 is uint8,
 * sdt_no_error is noError, sdt_elf_creation_error is elfCreationError, sdt_memfd_enabled is
 * memfd_enabled, and SDT_MAX_VARIADIC_ARGUMENTS is MAX_ARGUMENTS.
 *
 * errno. Because <errno.h> makes this word a macro, `provider->errno` does not
 * compile after it. Use providerErrno(provider), which works everywhere.
 *
 * Threads. Several threads may use different providers at the same time. Calls
 * on one provider must come from one thread or be protected by a lock, but any
 * number of threads may fire and test the probes of a loaded provider. The
 * caller must ensure that no thread fires a probe while its provider is unloaded
 * or destroyed.
 *
 * Cost. A probe that is not traced costs two loads and three branches, which are
 * inlined into the caller. The values passed to probeFire are computed exactly once,
 * traced or not. If they are expensive to compute, call probeIsEnabled first. A
 * traced probe costs what the kernel needs for a uprobe. GCC inlines probeFire,
 * probeFireV and probeIsEnabled, in C and in C++. Clang inlines only the last, and
 * cannot pass variable arguments on: to save a call while the probe is idle, write
 * if (probeIsEnabled(probe)) before it. If SDT_NO_INLINE is defined before the
 * header is included, all three are calls.
 *
 * Forks. A forked child has its parent's probes: it can fire them, even while a
 * tracer is attached, and it can unload and load them again. A fork does not wait for
 * what another thread does in the library, such as to make a file. A provider's file
 * remains at least until the process that loaded it unloads it or has ended. A
 * child made by a raw clone(2) is safe with sdt_site_safe, the default, but not
 * with sdt_site_fast: see providerUseSite.
 *
 * Wrappers. A program that was written for the original libstapsdt runs with
 * this library: the structs, the functions and their return values are the same.
 * Some wrappers test a probe inline, by (*_fire & 0x90) == 0x90, instead of
 * calling probeIsEnabled. That works only with the one-byte nop of x86, which is
 * the default there. With the nops of five and ten bytes, every probe appears to
 * be enabled all the time, and the program computes the arguments for nothing. A
 * wrapper that calls *_fire itself is traced, and not recorded. So is a copy of an
 * SDTProbe_t that was made while the probe was not recorded.
 *
 * Recordings. sdtRecord, or STAPSDT_RECORD in the environment, records all fires of the
 * loaded providers to a file, without a tracer and without root. The file holds the last
 * events, and is whole however the program ends, after SIGKILL too.
 *
 *	$ STAPSDT_RECORD=/dev/shm/myapp.rec ./myapp
 *	$ stapsdt trace --from /dev/shm/myapp.rec 'myapp:*'
 *
 * A recorded probe is enabled. An event costs about as much as one reading of the clock;
 * the first one of each thread makes a system call. A fire never waits for another: an
 * event for which there is no room is counted as lost. Fires in signal handlers are
 * recorded. A file on a disk can make a fire wait for the disk, and one that is
 * truncated, or whose disk fails, ends the program by SIGBUS: use tmpfs, such as
 * /dev/shm.
 *
 * In FILE, the path of a recording, %p is the PID. The last directory of FILE is made, with
 * mode 0700, if it is missing. A recording that an earlier process has left as FILE is
 * renamed to FILE-TIME. If another process records to FILE, or it is a file of another user,
 * the recording is called FILE.PID, or FILE.PID.2 and so on if that is taken. A FILE of the
 * user that is not a recording stays, and is an error. Five recordings of ended processes
 * are kept, whatever PID %p stands for. If there are more, recordings that exit or
 * sdtStopRecording ended are removed first, then those of processes that began while another
 * recorded to FILE, and those of other crashed processes last; of each kind, the oldest
 * first. sdtRecordPath tells the name.
 *
 * A forked child begins a recording of its own when it first fires, of a sixteenth of the
 * size: that fire makes the file, and takes more than a millisecond. If the file cannot be
 * made, the program continues, and one line on standard error gives the reason. A child made
 * by a raw clone(2) records nothing.
 *
 * Watchers. sdtListen, or STAPSDT_SOCKET in the environment, lets the program's own user and
 * root watch its probes, without the kernel: stapsdt list, trace and the other commands work
 * with -p PID as that user. It creates a thread, in which no signal is handled, and a socket
 * of mode 0600 in STAPSDT_DIR and no other directory, or in stapsdt in XDG_RUNTIME_DIR, or in
 * stapsdt-UID in TMPDIR or /tmp. The probes that a watcher asks for are enabled while it is
 * connected, and their events are written to memory that it reads, of which the watchers
 * have at most 128 MiB. A watcher that is too slow loses the oldest events, and knows how
 * many. A forked child has a thread and a socket of its own, some 20 ms after the fork: from
 * then on, calls that the kernel refuses to a process with several threads fail, such as
 * unshare(CLONE_NEWUSER). Make such a call at once, or call sdtStopListening before it.
 * If main ends by pthread_exit, the process ends within two seconds of its last thread,
 * or within a minute if main neither called sdtListen nor loaded the first provider.
 *
 * Recordings and watchers copy the text of an argument of the type sdt_string, and of no
 * other: at most 4,095 bytes. The address must be readable up to the NUL or for that many
 * bytes, or be NULL, which is recorded as (null).
 *
 * Environment. The library reads these variables:
 *
 *	STAPSDT_RECORD=FILE        the first load records to FILE: see Recordings
 *	STAPSDT_RECORD=FILE,SIZE   the same, with a size for sdtRecord, such as 512K, 64M or 1G
 *	STAPSDT_SOCKET=1           the first load listens: see Watchers
 *	STAPSDT_DIR=DIRECTORY      the directory for files: see providerLoad and Watchers
 *	STAPSDT_SITE=NOP           the nop: see providerUseSite
 *	STAPSDT_DEBUG=1            lines on standard error: see below
 *	STAPSDT_TRACER=PATH        each load waits for a tracer: see below
 *
 * If the first two cannot be obeyed, one line on standard error gives the reason, as do
 * sdtRecordError and sdtListenError, and the program continues. Neither accepts a word
 * such as yes. sdtRecord and sdtListen take precedence: they replace the recording or the
 * socket that a variable has begun, and after them a variable begins nothing. With
 * STAPSDT_DEBUG, each load writes a line with the provider, the path and the nop, and each
 * function that fails writes the line of providerError. The command stapsdt sets
 * STAPSDT_TRACER for a program that it starts: each load waits until stapsdt has attached
 * to the probes, for at most a second. If the name of the socket at PATH has commas, each is
 * followed by the name of a provider, and loads of others do not wait. A program that runs
 * with privileges of its own, such as a set-user-ID program, ignores all variables.
 *
 * Tracers. bcc, gdb, and bpftrace -p before version 0.25 find a loaded provider
 * both in memory and in a file. perf and later versions of bpftrace need a file:
 * use memfd_disabled. The library accepts a name with a colon, space, comma,
 * quote, wildcard or brace, but the name cannot be written in a tracer's command.
 * perf accepts only letters, digits and underscores. Tracers take two providers
 * of one name in a process for one: give their probes of the same name the same
 * types, because the library does not compare providers.
 *
 * Platforms. The library supports Linux on x86-64 and on little-endian AArch64.
 * Support for 64-bit RISC-V, s390x, little-endian POWER (ELFv2), i386 and
 * little-endian ARM (EABI) is experimental, because there was no kernel to trace
 * them on. On other platforms the library compiles, and providerLoad fails. The
 * values passed to probeFire have 64 bits on every platform.
 */
#ifndef LIBSTAPSDT_H
#define LIBSTAPSDT_H

#include <stddef.h>
#include <stdint.h>

/*
 * The version of this header: 0.1.3 is 1003. An earlier header does not define SDT_VERSION, which
 * #if takes for 0.
 *
 *	#if SDT_VERSION >= 1003
 *
 * sdtVersion returns the version of the library with which the program runs.
 */
#define SDT_VERSION_MAJOR 0
#define SDT_VERSION_MINOR 1
#define SDT_VERSION_PATCH 3
#define SDT_VERSION (SDT_VERSION_MAJOR * 1000000 + SDT_VERSION_MINOR * 1000 + SDT_VERSION_PATCH)

/* The largest number of arguments for providerAddProbe, and for the other two functions. */
#define SDT_MAX_VARIADIC_ARGUMENTS 6
#define SDT_MAX_ARGUMENTS 12
#ifndef SDT_NO_SHORT_NAMES
#define MAX_ARGUMENTS SDT_MAX_VARIADIC_ARGUMENTS
#endif

#if defined(__GNUC__)
#define SDT_API __attribute__((visibility("default")))
#else
#define SDT_API
#endif

/* <errno.h> makes the name of a member below a macro. */
#pragma push_macro("errno")
#undef errno

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of a failure. */
typedef enum {
#ifndef SDT_NO_SHORT_NAMES
	noError = -1,
	elfCreationError = 0,
	tmpCreationError = 1,
	sharedLibraryOpenError = 2,
	symbolLoadingError = 3,
	sharedLibraryCloseError = 4,
#endif
	sdt_no_error = -1,
	sdt_elf_creation_error = 0,        /* defining a probe, or building the image */
	sdt_tmp_creation_error = 1,        /* making the file or memfd for the image */
	sdt_shared_library_open_error = 2, /* loading the image */
	sdt_symbol_loading_error = 3,      /* finding the sites in the loaded image */
	sdt_shared_library_close_error = 4 /* unloading the image */
} SDTError_t;

/* An argument's size in bytes, negative if it is signed. A pointer is a uint64. */
typedef enum {
#ifndef SDT_NO_SHORT_NAMES
	noarg = 0,
	uint8 = 1,
	int8 = -1,
	uint16 = 2,
	int16 = -2,
	uint32 = 4,
	int32 = -4,
	uint64 = 8,
	int64 = -8,
#endif
	sdt_noarg = 0, /* not a valid type for an argument */
	sdt_uint8 = 1,
	sdt_int8 = -1,
	sdt_uint16 = 2,
	sdt_int16 = -2,
	sdt_uint32 = 4,
	sdt_int32 = -4,
	sdt_uint64 = 8,
	sdt_int64 = -8,
	sdt_string = 16 /* see SDTArgument_t */
} ArgType_t;

/*
 * An argument of providerAddNamedProbe: its name and its type. The name is a C
 * identifier of at most 32 ASCII letters, digits and underscores, and neither a
 * keyword of C or bpftrace nor a name that the kernel's events reserve, such as
 * common_pid.
 *
 * The type may be `sdt_string`, which the other functions do not accept: the
 * address of text that ends with a NUL, or NULL. It is a promise that the text can
 * be read, because recordings do that. A tracer that does not know the names sees
 * a uint64.
 */
typedef struct SDTArgument {
	const char *name;
	ArgType_t type;
} SDTArgument_t;

/* Where the image of a loaded provider is kept: in a file, or in memory. */
typedef enum {
#ifndef SDT_NO_SHORT_NAMES
	memfd_disabled = 0,
	memfd_enabled = 1,
#endif
	sdt_memfd_disabled = 0,
	sdt_memfd_enabled = 1
} MemFDOption_t;

/* The choice of the nop at each site: see providerUseSite. */
typedef enum {
	sdt_site_safe = 0, /* on x86 a nop of one byte, with which everything works */
	sdt_site_fast = 1  /* the nop that this kernel traces at the lowest cost */
} SDTSite_t;

struct SDTProvider;

/*
 * A probe. Only providerAddProbe, providerAddProbeV and providerAddNamedProbe make
 * one, because private data follows the members. Do not write to members whose
 * names begin with an underscore.
 */
typedef struct SDTProbe {
	char *name;
	ArgType_t argFmt[SDT_MAX_VARIADIC_ARGUMENTS]; /* noarg after the last type */
	void *_fire;                                  /* the site, NULL unless loaded */
	struct SDTProvider *provider;
	int argCount;                                 /* see probeFire */
} SDTProbe_t;

/* The probes of a provider, in the order in which they were added. */
typedef struct SDTProbeList_ {
	SDTProbe_t probe;
	struct SDTProbeList_ *next;
} SDTProbeList_t;

/*
 * A provider. Only providerInit makes one. As with a probe, private data follows
 * the members. Do not write to those whose names begin with an underscore.
 */
typedef struct SDTProvider {
	char *name;
	SDTProbeList_t *probes;
	SDTError_t errno;         /* see providerErrno */
	char *error;              /* see providerError */
	void *_handle;            /* from dlopen, NULL unless loaded */
	char *_filename;          /* the path of the image, NULL unless loaded */
	int _memfd;               /* the memfd's descriptor, or -1 */
	MemFDOption_t _use_memfd;
} SDTProvider_t;

/*
 * providerInit returns a new provider without probes. Like the functions below,
 * it copies the name that it is given. It returns NULL if the name is NULL or
 * empty, or if memory is short.
 */
SDT_API SDTProvider_t *providerInit(const char *name);

/*
 * providerAddProbe adds a probe to a provider, which must not be loaded.
 * argCount, at most MAX_ARGUMENTS, is the number of ArgType_t that follow it.
 * The probe belongs to the provider.
 *
 * If the provider already has a probe with this name and the same types, the new
 * one is a second site of the same event, and a tracer attaches to both. If the
 * types differ, the call fails. The code of every failure is elfCreationError.
 */
SDT_API SDTProbe_t *providerAddProbe(SDTProvider_t *provider, const char *name, int argCount, ...);

/*
 * providerAddProbeV is providerAddProbe with the types in an array of at most
 * SDT_MAX_ARGUMENTS. types may be NULL if argCount is 0.
 */
SDT_API SDTProbe_t *providerAddProbeV(SDTProvider_t *provider, const char *name, int argCount,
				      const ArgType_t *types);

/*
 * providerAddNamedProbe is providerAddProbeV with names of the arguments, of which
 * there are at most SDT_MAX_ARGUMENTS. arguments may be NULL if argCount is 0.
 *
 *	const SDTArgument_t done[] = {{"path", sdt_string}, {"status", int32}};
 *	SDTProbe_t *probe = providerAddNamedProbe(app, "request__done", 2, done);
 *
 *	# bpftrace -e 'uprobe:FILE:request__done { printf("%s %d", str(args.path), args.status); }'
 *	# perf probe -x FILE --add 'request__done path:string status'
 *
 * The names and types are in the image as DWARF, on x86-64 and AArch64. Tracers
 * read them from a file, so use memfd_disabled; FILE is the `_filename` of the
 * loaded provider. bpftrace 0.17 spells it args->path. bpftrace knows only the first
 * six arguments. An image without names has no DWARF, because its notes have all
 * that is known: the size and the sign of each argument.
 *
 * All probes of the same name have the same names of arguments. If the provider
 * already has the probe with other names, the call fails. A probe that is added
 * without names gets those of the others.
 */
SDT_API SDTProbe_t *providerAddNamedProbe(SDTProvider_t *provider, const char *name, int argCount,
					  const SDTArgument_t *arguments);

/*
 * providerUseMemfd chooses where providerLoad keeps the image. With
 * memfd_enabled, the default, it is in memory. With memfd_disabled it is in a
 * file named NAME-XXXXXX.so, which exists until the provider is unloaded, and
 * remains if the process ends before that. providerLoad chooses its directory.
 * providerUseMemfd returns 1, or 0 if the provider is loaded or the option is
 * unknown (elfCreationError).
 */
SDT_API int providerUseMemfd(SDTProvider_t *provider, const MemFDOption_t use_memfd);

/*
 * providerUseSite chooses the nop at the provider's sites. sdt_site_safe, the
 * default, is the nop of the original library, to which every kernel attaches:
 * on x86 it has one byte. sdt_site_fast is the nop that this kernel traces at the
 * lowest cost. On x86-64 from Linux 6.18 on, it has five or ten bytes; the kernel
 * turns it into a call, and a traced fire takes a quarter to a third less time.
 * On older kernels and other architectures both are the same. sdt_site_fast has
 * these disadvantages:
 *
 * A wrapper that inlines the original library's test, (*_fire & 0x90) == 0x90,
 * considers every probe enabled all the time.
 *
 * A child that is made while a tracer is attached inherits the call, but not
 * always the code that it calls. After fork(3), the library maps the image again
 * before the child continues. The library does not notice a raw clone(2): when
 * the child fires, it dies of SIGSEGV or executes whatever is mapped at that
 * address by then.
 *
 * Under syscall user dispatch, which Wine uses, a traced fire raises SIGSYS.
 *
 * STAPSDT_SITE in the environment overrides this call. Its value is "fast"
 * or the name of a nop: nop1, nop5 or nop10 on x86-64, nop4 on AArch64. Any other
 * name makes providerLoad fail (elfCreationError).
 *
 * providerUseSite returns -1 if the provider is loaded or the choice is unknown
 * (elfCreationError).
 */
SDT_API int providerUseSite(SDTProvider_t *provider, SDTSite_t site);

/*
 * providerLoad makes the probes visible to tracers. If the provider is already
 * loaded, it does nothing. It fails with tmpCreationError if the provider's name
 * has a slash, if the name of a provider in memory is longer than 249 bytes, or
 * if the name of a provider in a file has a dollar sign or is longer than the
 * file system allows.
 *
 * The directory for the file is /tmp or, if it is set, the one that STAPSDT_DIR
 * names, which is created with the mode 0700 if it does not exist. Loading also
 * fails with tmpCreationError if the directory is on a network or FUSE file
 * system: a probe reads a page of its file, and could wait forever or die of
 * SIGBUS. It fails if another user could exchange the files in STAPSDT_DIR, or if
 * the path of that has a colon or a newline, which tracers cannot read, or a
 * dollar sign, which dlopen expands.
 */
SDT_API int providerLoad(SDTProvider_t *provider);

/*
 * providerUnload hides the probes from tracers, and closes the memfd or removes
 * the file. In a forked child of the process that loaded the provider, it leaves
 * the file in place while that process lives. If the provider is not loaded,
 * providerUnload does nothing.
 *
 * It fails with sharedLibraryCloseError if other code has closed the handle, or
 * if the file cannot be removed. Even then, the provider is unloaded. Where
 * dlclose unloads nothing, as in musl, tracers no longer find the probes, but the
 * image stays mapped, and each load maps one more.
 */
SDT_API int providerUnload(SDTProvider_t *provider);

/* providerDestroy unloads the provider if it is loaded, and frees it and its probes. */
SDT_API void providerDestroy(SDTProvider_t *provider);

/*
 * probeFire reports an event with argCount values. Pass every value as 64 bits,
 * whatever the size of its type: an integer constant needs a cast to uint64_t. A
 * tracer reads as many of the low bytes as the type has.
 *
 * A program may lower argCount to pass fewer values. The arguments that it does not
 * pass are 0. A probe whose argCount exceeds SDT_MAX_ARGUMENTS does not fire.
 */
SDT_API void probeFire(SDTProbe_t *probe, ...);

/*
 * probeFireV is probeFire with the values in an array of argCount words. If
 * values is NULL, it does not fire a probe that has arguments.
 */
SDT_API void probeFireV(SDTProbe_t *probe, const uint64_t *values);

/*
 * probeIsEnabled reports whether a tracer is attached to the probe in this process, or the
 * probe is recorded or watched. The answer may be out of date by the time it is returned.
 */
SDT_API int probeIsEnabled(SDTProbe_t *probe);

/*
 * providerImage builds the image that providerLoad would load. The caller
 * releases its bytes with free(). Equal providers have equal images. The provider
 * may be loaded or not.
 */
SDT_API int providerImage(SDTProvider_t *provider, void **image, size_t *size);

/*
 * probeOffset returns the offset, in bytes, of the probe's site in the last image
 * that providerImage or providerLoad built, as the kernel's uprobe interfaces
 * expect it. It returns -1 if there was no image, or if the probe was added later.
 * Do not pass a copy of an SDTProbe_t, which lacks the private data.
 */
SDT_API int64_t probeOffset(const SDTProbe_t *probe);

/*
 * sdtRecord records the fires of all providers, including those that are loaded later, until
 * sdtStopRecording is called: see Recordings, where path is called FILE. The file holds the last
 * size bytes of events, at least 256 KiB and at most 1 GiB; 0 stands for 16 MiB. sdtRecord
 * fails if the process records already, and if a recording could not be kept safely: in a
 * directory in which other users could replace the file, on a network, FUSE, btrfs or zfs
 * file system, and without room or memory for all of it.
 */
SDT_API int sdtRecord(const char *path, size_t size);

/*
 * sdtStopRecording ends the recording, if there is one. The file stays. Once it has
 * returned, nothing more is written to the file.
 */
SDT_API void sdtStopRecording(void);

/*
 * sdtListen lets other processes watch the probes of this process, until sdtStopListening is
 * called: see Watchers. It fails if the process listens
 * already, if none of the directories can be used, and without /proc, in which watchers
 * find a process.
 */
SDT_API int sdtListen(void);

/* sdtStopListening ends all watches, and closes the socket. No fork waits for it. */
SDT_API void sdtStopListening(void);

/*
 * sdtRecordPath writes the absolute path of the file to which this process records, as much of
 * it as fits into size bytes with a NUL, and returns its length, like snprintf; 4,096 bytes are
 * always enough. It is the path at which the recording began, such as FILE.PID. If the process
 * does not record, sdtRecordPath writes "" and returns 0: before the load that obeys the
 * environment, after sdtStopRecording, and in a forked child that has not fired yet.
 *
 * The bytes are the caller's. Any thread may call this function and the next three at any time, but
 * no signal handler. They allocate nothing. While another thread begins or ends a recording,
 * sdtRecordPath and sdtRecordError wait for it.
 */
SDT_API size_t sdtRecordPath(char *path, size_t size);

/*
 * sdtRecordError writes the reason why this process does not record although sdtRecord, the
 * environment or, for a forked child, its parent has requested that. It writes as sdtRecordPath
 * does, and returns 0 if there is no such reason.
 */
SDT_API size_t sdtRecordError(char *line, size_t size);

/*
 * sdtListenPath is sdtRecordPath for the path of the socket on which this process listens. A forked
 * child has none until its thread has opened its own socket.
 */
SDT_API size_t sdtListenPath(char *path, size_t size);

/* sdtListenError is sdtRecordError for the reason why this process does not listen. */
SDT_API size_t sdtListenError(char *line, size_t size);

/*
 * sdtError returns the error line of the last call to sdtRecord or sdtListen by any
 * thread, or "". It is valid until the next call. Threads that call these functions
 * need a lock of their own for a call and its error, or sdtRecordError and sdtListenError.
 */
SDT_API const char *sdtError(void);

/*
 * sdtVersion returns the version of the library, as SDT_VERSION is that of the header with which
 * the program was compiled. A library of a later version has all that the program calls. An
 * earlier one may lack functions of the header: a program that calls one of these does not start,
 * or ends at the call, unless it gets the function from dlsym. This function itself came with
 * 0.1.3.
 */
SDT_API int sdtVersion(void);

/* providerErrno returns the code of the last call, or elfCreationError for NULL. */
SDT_API SDTError_t providerErrno(const SDTProvider_t *provider);

/*
 * providerError returns the error line of the last call, or "" if there is none.
 * It never returns NULL.
 */
SDT_API const char *providerError(const SDTProvider_t *provider);

#ifdef __cplusplus
}
#endif

#pragma pop_macro("errno")

/*
 * The rest is not API, but ABI: it is compiled into callers, and stays as it is for the life of
 * libstapsdt.so.0. A site is patched if SDT_PATCHED_MASK of its first byte is SDT_PATCHED_BITS,
 * whichever nop it has: internal/call/site_GOARCH.go says why.
 */
#if defined(__x86_64__) || defined(__i386__)
#define SDT_PATCHED_MASK 0x48
#define SDT_PATCHED_BITS 0x48
#elif defined(__aarch64__)
#define SDT_PATCHED_MASK 0x1f
#define SDT_PATCHED_BITS 0
#elif defined(__riscv)
#define SDT_PATCHED_MASK 0x02
#define SDT_PATCHED_BITS 0x02
#elif defined(__s390x__)
#define SDT_PATCHED_MASK 0x07
#define SDT_PATCHED_BITS 0
#elif defined(__powerpc64__)
#define SDT_PATCHED_MASK 0x08
#define SDT_PATCHED_BITS 0x08
#elif defined(__arm__)
#define SDT_PATCHED_MASK 0xf0
#define SDT_PATCHED_BITS 0xf0
#else
#define SDT_PATCHED_MASK 0
#define SDT_PATCHED_BITS 1
#endif

#if defined(__GNUC__) && defined(__ELF__) && !defined(SDT_NO_INLINE)
#ifdef __cplusplus
extern "C" {
#endif

/* A program that takes the address of such a function gets the library's. */
#define SDT_INLINE extern __inline__ __attribute__((gnu_inline, always_inline, artificial))

/* This reads public members only, so that a copy of an SDTProbe_t fires too. */
SDT_INLINE int probeIsEnabled(SDTProbe_t *probe)
{
	const volatile unsigned char *site; /* volatile, because the kernel writes to it */

	if (!probe)
		return 0;
	site = (const volatile unsigned char *)__atomic_load_n(&probe->_fire, __ATOMIC_RELAXED);
	return site && (*site & SDT_PATCHED_MASK) == SDT_PATCHED_BITS;
}

/*
 * Clang has no __builtin_va_arg_pack, and treats a function that calls its own symbol as recursive.
 */
#ifndef __clang__
extern void sdt_fire_enabled(SDTProbe_t *probe, ...) __asm__("probeFire");
extern void sdt_fire_enabled_v(SDTProbe_t *probe, const uint64_t *values) __asm__("probeFireV");

SDT_INLINE void probeFire(SDTProbe_t *probe, ...)
{
	if (__builtin_expect(probeIsEnabled(probe), 0))
		sdt_fire_enabled(probe, __builtin_va_arg_pack());
}

SDT_INLINE void probeFireV(SDTProbe_t *probe, const uint64_t *values)
{
	if (__builtin_expect(probeIsEnabled(probe), 0))
		sdt_fire_enabled_v(probe, values);
}
#endif

#ifdef __cplusplus
}
#endif
#endif

#endif
