/* The recording and the socket that the program or its environment requests. */
#include "recorder.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The default size of a recording. */
#define DEFAULT_BYTES ((uint64_t)16 << 20)

/* It is not of each thread: dlopen has hardly any room for variables of threads. */
static char error_line[SDT_LINE_SIZE + 16];

/* The signals that were blocked before a fork. The lock of the socket guards it. */
static sigset_t mask_of_fork;

/*
 * A forked child handles signals only after it has left its parent's recordings, because the fires
 * of the handlers would be lost. Signals that an instruction causes stay unblocked, because they
 * end a process that blocks them.
 */
static void block_signals(sigset_t *before)
{
	static const int caused[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof caused / sizeof caused[0]; i++)
		sigdelset(&all, caused[i]);
	pthread_sigmask(SIG_BLOCK, &all, before);
}

static void before_fork(void)
{
	sigset_t before;

	block_signals(&before);
	sdt_socket_before_fork();
	mask_of_fork = before;
}

static void after_fork_in_parent(void)
{
	sigset_t before = mask_of_fork;

	sdt_socket_after_fork();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void after_fork_in_child(void)
{
	int reason = errno;
	sigset_t before = mask_of_fork;

	sdt_record_forked();
	sdt_socket_forked();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = reason;
}

/* keep_library keeps dlclose from unloading this library: threads and handlers may be in it. */
static void keep_library(void)
{
	Dl_info info;

	if (dladdr((void *)(uintptr_t)&keep_library, &info) && info.dli_fname)
		(void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static int handlers_error;

static void prepare_once(void)
{
	keep_library();
	handlers_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/*
 * prepare_forks makes forked children leave their parent's recordings and socket. It reports false
 * if there is no memory for that.
 */
static bool prepare_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare_once);
	return handlers_error == 0;
}

/* The end of the process or of the library. The library is never unloaded while it listens. */
__attribute__((destructor)) static void at_end(void)
{
	sdt_record_exit();
	sdt_socket_remove();
}

/* What the program or its environment can request. */
struct request {
	const char *what; /* begins a line of error */
	/* for sdtRecordError or sdtListenError */
	void (*keep_failure)(const char *what, const char *line);
	/* It has begun, and the program, which takes precedence, has not requested it. */
	bool of_environment;
};

static struct request record_request = {.what = "record to ", .keep_failure = sdt_record_failed};
static struct request socket_request = {.what = "listen: ", .keep_failure = sdt_socket_failed};

static void keep_failure(const struct request *request, const char *what, const char *line)
{
	if (prepare_forks())
		request->keep_failure(what, line);
}

/*
 * end_of_call sets what sdtError returns. A status of 1 means that the process records or listens
 * already.
 */
static int end_of_call(const struct request *request, int status, const char *what,
		       const char *line)
{
	*error_line = '\0';
	if (status == 0)
		return 0;
	sdt_copy_text(error_line, sizeof error_line, what, line);
	if (status < 0)
		keep_failure(request, what, line);
	return -1;
}

static bool take_over(struct request *request)
{
	return __atomic_exchange_n(&request->of_environment, false, __ATOMIC_SEQ_CST);
}

/* complain reports that a variable cannot be obeyed. */
static void complain(const struct request *request, const char *what, const char *line)
{
	sdt_complain(what, line);
	keep_failure(request, what, line);
}

/*
 * end_of_obeying notes that the environment has begun the recording or the socket, or reports the
 * failure. A status of 1 means that the program has begun it.
 */
static void end_of_obeying(struct request *request, int status, const char *line)
{
	if (status == 0)
		__atomic_store_n(&request->of_environment, true, __ATOMIC_SEQ_CST);
	else if (status < 0)
		complain(request, request->what, line);
}

/*
 * begin_recording and listen_to_watchers write an error line, and return 1 if the process records
 * or listens already.
 */
static int begin_recording(const char *path, uint64_t bytes, char *line)
{
	if (!prepare_forks())
		return sdt_fail_line(line, "out of memory");
	return sdt_record_begin(path, bytes, line);
}

static int listen_to_watchers(char *line)
{
	return prepare_forks() ? sdt_socket_begin(line) : sdt_fail_line(line, "out of memory");
}

int sdtRecord(const char *path, size_t size)
{
	char line[SDT_LINE_SIZE] = "";
	int status;

	if (!path || !*path)
		return end_of_call(&record_request, -1, "record: ", "no path");
	size = size ? size : DEFAULT_BYTES;
	status = begin_recording(path, size, line);
	if (status == 1 && take_over(&record_request)) {
		sdt_record_end();
		status = sdt_record_begin(path, size, line);
	}
	return end_of_call(&record_request, status, record_request.what, line);
}

void sdtStopRecording(void) { sdt_record_end(); }

int sdtListen(void)
{
	char line[SDT_LINE_SIZE] = "";
	int status = listen_to_watchers(line);

	if (status == 1 && take_over(&socket_request))
		status = 0;
	return end_of_call(&socket_request, status, socket_request.what, line);
}

void sdtStopListening(void) { sdt_socket_end(); }

const char *sdtError(void) { return error_line; }

/* parse_size parses a number of bytes, or of K, M or G. It returns 0 for anything else. */
static uint64_t parse_size(const char *text)
{
	static const char units[] = "KMG";
	const char *unit;
	uint64_t size = 0;

	if (*text < '0' || *text > '9')
		return 0;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(size, 10, &size) ||
		    __builtin_add_overflow(size, (uint64_t)(*text - '0'), &size))
			return 0;
	unit = strchr(units, *text); /* for "", its end */
	if (!unit || (*text && text[1]))
		return 0;
	for (long power = *text ? unit - units : -1; power >= 0; power--)
		if (__builtin_mul_overflow(size, 1024, &size))
			return 0;
	return size;
}

/*
 * is_switch reports whether a value is a number or a value of other variables, and not a path.
 */
static bool is_switch(const char *value)
{
	static const char *const words[] = {"true", "yes", "on", "false", "no", "off"};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return value[strspn(value, "0123456789")] == '\0';
}

/*
 * find_fault returns the reason why STAPSDT_RECORD is invalid, or NULL: see ParseVariable in
 * Go.
 */
static const char *find_fault(const char *path, uint64_t bytes)
{
	for (const char *at = path; *at; at++)
		if (sdt_is_control(at))
			return "the path has control characters";
	if (is_switch(path) || bytes < SDT_MIN_RECORDING || bytes > SDT_MAX_RECORDING)
		return "it must be FILE or FILE,SIZE, with a SIZE from 256K to 1G";
	return NULL;
}

/* record_by_environment obeys STAPSDT_RECORD=FILE[,SIZE]. */
static void record_by_environment(void)
{
	const char *value = secure_getenv("STAPSDT_RECORD"), *comma, *fault = "the path is too long";
	char path[SDT_PATH_SIZE], line[SDT_LINE_SIZE] = "";
	uint64_t bytes = DEFAULT_BYTES;
	size_t length;

	if (!value || !*value)
		return;
	comma = strrchr(value, ',');
	length = comma ? (size_t)(comma - value) : strlen(value);
	if (comma)
		bytes = parse_size(comma + 1);
	if (length < sizeof path) {
		memcpy(path, value, length);
		path[length] = '\0';
		fault = find_fault(path, bytes);
	}
	if (fault) {
		snprintf(line, sizeof line, "%.2048s: %s", value, fault);
		complain(&record_request, "STAPSDT_RECORD=", line);
		return;
	}
	end_of_obeying(&record_request, begin_recording(path, bytes, line), line);
}

/* listen_by_environment obeys STAPSDT_SOCKET=1. */
static void listen_by_environment(void)
{
	const char *value = secure_getenv("STAPSDT_SOCKET");
	char line[SDT_LINE_SIZE] = "";

	if (!value || !*value || strcmp(value, "0") == 0)
		return;
	if (strcmp(value, "1") == 0) {
		end_of_obeying(&socket_request, listen_to_watchers(line), line);
		return;
	}
	snprintf(line, sizeof line, "%.2048s: it must be 1 to listen, or 0", value);
	complain(&socket_request, "STAPSDT_SOCKET=", line);
}

static void obey_environment(void)
{
	record_by_environment();
	listen_by_environment();
}

/*
 * sdt_program_prepare is called before a provider is loaded. The first time, it obeys the
 * environment.
 */
void sdt_program_prepare(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, obey_environment);
	sdt_record_before_load();
}
