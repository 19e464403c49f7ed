/* Files that are written: the one writer of every program.
 *
 * A file appears whole or not at all: it is written as a temporary in the target's directory, which
 * is made durable and renamed. A link is followed to its target. A device or a FIFO is written into
 * and never replaced, and so is a file that is this process' standard output. The writer refuses
 * directories, files that we may not write, and files that this process has read as inputs
 * (ir/base/input.h), by whatever name. A file that is replaced hands on its permissions; a new one
 * gets 0644 less the umask: some hold code, which others must not change.
 *
 * Temporaries are called .dlc-HOST-RANDOM (hexadecimal), are made with O_EXCL and locked. A killed
 * process leaves its temporaries unlocked: the next process of that machine that writes into the
 * directory removes them. */
#ifndef DL_OUTPUT_H
#define DL_OUTPUT_H
#include "ir/base/status.h"
#include <stddef.h>
#include <stdint.h>

/* Writes a whole file. Errors: those of dl_output_open and dl_output_commit. */
bool dl_write_file(const char *path, const void *data, size_t n, dl_error *err);

/* Whether a file could be written there now, without touching anything: to be asked before long
 * work. Errors: those of dl_output_open. */
bool dl_output_check(const char *path, dl_error *err);

/* ---- a file in pieces ---- */

typedef struct dl_output dl_output;

/* Begins a file; NULL with an error. Errors: DL_USAGE for an empty name and for an input of this
 * process; DL_IO with path and cause. */
dl_output *dl_output_open(const char *path, dl_error *err);
/* Appends n bytes. Errors: DL_IO, which the commit remembers. */
bool dl_output_write(dl_output *o, const void *data, size_t n, dl_error *err);
/* Writes n bytes at an offset, in any order; bytes that no call writes are zero. Errors: DL_IO, and
 * of a device or FIFO, which takes bytes in order alone, everything that lies before what was
 * written. */
bool dl_output_write_at(dl_output *o, uint64_t offset, const void *data, size_t n, dl_error *err);
/* Makes a file at least so long at once; nothing of a device or FIFO. Errors: DL_IO. */
bool dl_output_extend(dl_output *o, uint64_t bytes, dl_error *err);
/* The descriptor of the temporary, for a library that writes by itself. */
int dl_output_fd(const dl_output *o);
/* Makes the file durable under its name and frees `o`. Errors (the old file stays as it was):
 * DL_IO. */
bool dl_output_commit(dl_output *o, dl_error *err);
/* Abandons the file, and leaves nothing of it. Frees `o`; NULL is fine. */
void dl_output_discard(dl_output *o);

/* ---- a directory of files ---- */

typedef struct dl_output_dir dl_output_dir;

/* Begins a directory as a temporary in the parent of `path`, which must exist; NULL with an error
 * (DL_USAGE, DL_IO). */
dl_output_dir *dl_output_dir_open(const char *path, dl_error *err);
/* Where its files are written meanwhile (with this writer), for as long as it is open. */
const char *dl_output_dir_path(const dl_output_dir *d);
/* Makes the directory durable under its name, which must be free (an empty directory goes), and
 * frees `d`. Errors (nothing is left of it): DL_IO. */
bool dl_output_dir_commit(dl_output_dir *d, dl_error *err);
/* Abandons the directory and its files. Frees `d`; NULL is fine. */
void dl_output_dir_discard(dl_output_dir *d);

/* ---- a file that grows ---- */

typedef enum {
    DL_APPEND,    /* made when it is missing */
    DL_APPEND_NEW /* must not exist */
} dl_append_how;

/* A file that is written at its end, line by line or record by record: its descriptor, or -1.
 * Follows links and refuses like dl_output_open. */
int dl_append_open(const char *path, dl_append_how how, dl_error *err);
/* Writes one record at `*end` whole or not at all: after a failure the file is cut back to where it
 * was. Advances `*end`. Errors: DL_IO with path and cause. */
bool dl_append(int fd, const char *path, const void *data, size_t n, int64_t *end, dl_error *err);

/* Writes all n bytes, through short writes and interruptions. False: errno says why. */
bool dl_write_all(int fd, const void *data, size_t n);
#endif
