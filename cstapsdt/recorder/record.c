/* The recordings of this process, and of the children that it forks, in files. */
#include "recorder.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* The recording that this process writes. The lock of observe.c guards it. */
static struct sdt_recordfile file = {.fd = -1, .directory = -1};
static bool is_recording;

/*
 * Whether a thread makes or ends the recording, which can take as long as its disk does. A fork
 * does not wait for that: the child has no recording, and finds `file` incomplete.
 */
static bool is_changing;

static void set_changing(bool to) { __atomic_store_n(&is_changing, to, __ATOMIC_SEQ_CST); }

/* The request, for children: an absolute path, in which %p stands for the PID. */
static char wanted_path[SDT_PATH_SIZE];
static uint64_t wanted_bytes;

/* Why the process does not record although that was requested, or "". The lock guards it. */
static char failure[SDT_LINE_SIZE + 16];
static bool was_requested; /* forks are prepared then, and the lock can be taken */

/*
 * A forked child that never fires, because it executes another program, does not need a file. The
 * first fire therefore makes the file, which is smaller than its parent's so that this does not
 * take long.
 */
enum { PART_OF_CHILD = 16 };
enum { CHILD_DONE, CHILD_WAITS, CHILD_BEGINS };
uint32_t sdt_record_waits; /* other than CHILD_DONE in a forked child that has no recording yet */
static uint64_t missed;    /* events that were fired meanwhile */

/* make_recording makes the requested file with a size, and records to it. */
static int make_recording(uint64_t bytes, char *line)
{
	static char path[SDT_PATH_SIZE]; /* a fire may have little stack */
	const char *process = strstr(wanted_path, "%p");
	bool makes;

	if (sdt_recordfile_expand(wanted_path, (uint32_t)getpid(), path) != 0)
		return sdt_fail_line(line, "%.64s...: the path is too long", wanted_path);
	/* directories for single processes would never be removed */
	makes = !(process && strchr(process, '/'));
	if (sdt_recordfile_create(&file, path, bytes, makes, line) != 0)
		return -1;
	if (sdt_observe_begin(SDT_FILE_SINK, &file.memory, NULL) != 0) {
		sdt_recordfile_discard(&file);
		return sdt_fail_line(line, "%s: out of memory", path);
	}
	if (sdt_recordfile_publish(&file, path, line) != 0) {
		sdt_observe_end(SDT_FILE_SINK);
		sdt_recordfile_discard(&file);
		return -1;
	}
	sdt_recordfile_tidy(&file, path, wanted_path);
	sdt_recordfile_leave(&file);
	is_recording = true;
	*failure = '\0';
	return 0;
}

/* begin_recording begins the requested recording. The lock is held. */
static int begin_recording(uint64_t bytes, char *line)
{
	int status;

	set_changing(true);
	status = make_recording(bytes, line);
	set_changing(false);
	return status;
}

/* note_failure keeps a reason for sdtRecordError. The lock is held. */
static void note_failure(const char *what, const char *line)
{
	set_changing(true);
	sdt_copy_text(failure, sizeof failure, what, line);
	set_changing(false);
}

/* sdt_is_control reports whether a character in UTF-8 controls a terminal. */
bool sdt_is_control(const char *character)
{
	unsigned char first = (unsigned char)character[0];

	return first < ' ' || first == 0x7f ||
	       (first == 0xc2 && ((unsigned char)character[1] & 0xe0) == 0x80);
}

/*
 * sdt_complain reports a failure on standard error if no caller can get the error. The reason
 * can contain a path of the user's.
 */
void sdt_complain(const char *what, const char *reason)
{
	char text[SDT_LINE_SIZE + 32];
	size_t size = (size_t)snprintf(text, sizeof text, "stapsdt: %s", what);
	struct pollfd out = {STDERR_FILENO, POLLOUT, 0};

	for (; *reason && size < sizeof text - 10; reason++) {
		bool control = sdt_is_control(reason);

		if (control)
			size += (size_t)snprintf(text + size, 5, "\\x%02x", (unsigned char)*reason);
		if (control && (unsigned char)*reason == 0xc2)
			size += (size_t)snprintf(text + size, 5, "\\x%02x", (unsigned char)*++reason);
		else if (!control)
			text[size++] = *reason;
	}
	text[size++] = '\n';
	/* A fire may call it, which must neither wait nor die of SIGPIPE. */
	if (poll(&out, 1, 0) != 1 || out.revents != POLLOUT)
		return;
	if (write(STDERR_FILENO, text, size) < 0)
		return;
}

/* sdt_record_forked leaves the recording to the parent of this process. */
void sdt_record_forked(void)
{
	bool recorded = (is_recording && !is_changing) || sdt_record_waits != CHILD_DONE;

	if (is_recording || is_changing)
		sdt_recordfile_close(&file, false); /* its memory is not mapped in a child */
	if (is_changing)
		*failure = '\0';
	is_recording = false;
	set_changing(false);
	sdt_observe_forked(recorded ? 1U << SDT_FILE_SINK : 0);
	missed = 0;
	__atomic_store_n(&sdt_record_waits, recorded ? CHILD_WAITS : CHILD_DONE, __ATOMIC_RELAXED);
}

/* count_missed counts the missed events as lost. */
static void count_missed(void)
{
	uint64_t count = __atomic_exchange_n(&missed, 0, __ATOMIC_SEQ_CST);

	if (count)
		sdt_observe_drop(SDT_FILE_SINK, count);
}

/* begin_in_child begins the recording of a forked child. The lock is held. */
static void begin_in_child(void)
{
	static char line[SDT_LINE_SIZE];

	if (begin_recording(wanted_bytes / PART_OF_CHILD, line) != 0) {
		sdt_complain("record to ", line);
		note_failure("record to ", line);
		sdt_observe_end(SDT_FILE_SINK); /* the probes are idle again */
	}
	__atomic_store_n(&sdt_record_waits, CHILD_DONE, __ATOMIC_SEQ_CST);
	count_missed();
}

/*
 * sdt_record_in_child is called by a fire in a forked child that has no recording yet. It begins
 * the recording, unless another thread does so or has taken the lock, for which a fire must not
 * wait; the event is then lost. It returns the sinks to which the fire must not be appended. It
 * calls only functions that a signal handler may call.
 */
uint32_t sdt_record_in_child(void)
{
	uint32_t waits = CHILD_WAITS;
	int reason = errno, cancel = sdt_cancel_hold();
	bool begun = false;

	if (__atomic_compare_exchange_n(&sdt_record_waits, &waits, CHILD_BEGINS, false,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		if (sdt_observe_trylock()) {
			begin_in_child();
			sdt_observe_unlock();
			begun = true;
		} else
			__atomic_store_n(&sdt_record_waits, CHILD_WAITS, __ATOMIC_SEQ_CST);
	}
	sdt_cancel_release(cancel);
	errno = reason;
	if (begun || waits == CHILD_DONE)
		return 0;
	__atomic_add_fetch(&missed, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sdt_record_waits, __ATOMIC_SEQ_CST) == CHILD_DONE)
		count_missed();
	return 1U << SDT_FILE_SINK;
}

/* want_path keeps the absolute path: a child may have changed its directory when it fires. */
static int want_path(const char *path)
{
	size_t length = 0;

	if (*path != '/') {
		if (!getcwd(wanted_path, sizeof wanted_path - 1))
			return -1;
		length = strlen(wanted_path);
		wanted_path[length++] = '/';
	}
	if (strlen(path) >= sizeof wanted_path - length) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(wanted_path + length, path);
	return 0;
}

static int record_to(const char *path, uint64_t bytes, char *line)
{
	if (is_recording || sdt_record_waits != CHILD_DONE) {
		snprintf(line, SDT_LINE_SIZE, "%.2048s: the process records to %.2000s already", path,
			 is_recording ? file.path : wanted_path);
		return 1;
	}
	if (want_path(path) != 0)
		return sdt_fail_line(line, "%.64s: %m", path);
	wanted_bytes = bytes;
	return begin_recording(bytes, line);
}

/*
 * sdt_record_begin records to a file, and writes an error line if that fails. It returns 1 if the
 * process records already.
 */
int sdt_record_begin(const char *path, uint64_t bytes, char *line)
{
	int status, cancel = sdt_cancel_hold();

	__atomic_store_n(&was_requested, true, __ATOMIC_SEQ_CST);
	sdt_observe_lock();
	status = record_to(path, bytes, line);
	sdt_observe_unlock();
	sdt_cancel_release(cancel);
	return status;
}

/* sdt_record_failed notes why a recording that was requested does not begin. Forks are prepared. */
void sdt_record_failed(const char *what, const char *line)
{
	__atomic_store_n(&was_requested, true, __ATOMIC_SEQ_CST);
	sdt_observe_lock();
	if (!is_recording)
		note_failure(what, line);
	sdt_observe_unlock();
}

size_t sdtRecordPath(char *path, size_t size)
{
	const char *text = "";
	size_t length;

	if (!__atomic_load_n(&was_requested, __ATOMIC_SEQ_CST))
		return sdt_copy_text(path, size, "", "");
	sdt_observe_lock();
	if (is_recording && file.memory.pid == (uint32_t)getpid()) /* and not a raw clone */
		text = file.path;
	length = sdt_copy_text(path, size, "", text);
	sdt_observe_unlock();
	return length;
}

size_t sdtRecordError(char *line, size_t size)
{
	size_t length;

	if (!__atomic_load_n(&was_requested, __ATOMIC_SEQ_CST))
		return sdt_copy_text(line, size, "", "");
	sdt_observe_lock();
	length = sdt_copy_text(line, size, "", is_recording ? "" : failure);
	sdt_observe_unlock();
	return length;
}

/* sdt_record_exit notes in the recording that its process exits by itself. It never waits. */
void sdt_record_exit(void)
{
	if (!sdt_observe_trylock())
		return;
	if (is_recording)
		sdt_writer_exit(sdt_sinks[SDT_FILE_SINK].writer);
	sdt_observe_unlock();
}

void sdt_record_end(void)
{
	int cancel = sdt_cancel_hold();

	sdt_observe_lock();
	if (is_recording) {
		set_changing(true);
		sdt_recordfile_close(&file, sdt_observe_end(SDT_FILE_SINK));
		is_recording = false;
		set_changing(false);
	} else if (__atomic_exchange_n(&sdt_record_waits, CHILD_DONE, __ATOMIC_SEQ_CST) != CHILD_DONE)
		sdt_observe_end(SDT_FILE_SINK);
	*failure = '\0';
	sdt_observe_unlock();
	sdt_cancel_release(cancel);
}

/* sdt_record_before_load begins the recording of a forked child that loads a provider. */
void sdt_record_before_load(void)
{
	uint32_t waits = CHILD_WAITS;
	int cancel;

	if (__atomic_load_n(&sdt_record_waits, __ATOMIC_RELAXED) == CHILD_DONE)
		return;
	cancel = sdt_cancel_hold();
	sdt_observe_lock();
	if (__atomic_compare_exchange_n(&sdt_record_waits, &waits, CHILD_BEGINS, false,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		begin_in_child();
	sdt_observe_unlock();
	sdt_cancel_release(cancel);
}
