/* What recordfile.c and previous.c share: the names of recordings. */
#ifndef SDT_RECORDFILE_H
#define SDT_RECORDFILE_H

#include "recorder.h"

#define SDT_MAX_BYTES ((uint64_t)16 << 30)

enum {
	SDT_RECORDFILE_TRIES = 100,
	SDT_MOST_BESIDE = 1000, /* recordings beside one */
	SDT_SUFFIX_SIZE = 48 /* more than what is added to a path, of either kind */
};

enum sdt_moved {
	SDT_MOVED,    /* no file has the path any longer */
	SDT_TAKEN,    /* a process has locked the file, or it is another user's */
	SDT_OTHER,    /* the file is no recording, and there is a line of error */
	SDT_NOT_MOVED /* that has failed, and there is a line of error */
};

/* previous.c: the recordings of earlier processes. */
enum sdt_moved sdt_recordfile_move_away(const char *path, const char *recording, char *line);
void sdt_recordfile_directory(const char *path, char directory[SDT_PATH_SIZE]);
int sdt_recordfile_rename(const char *from, const char *to);

#endif
