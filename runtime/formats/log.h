/* Log lines in the format of Python's logging, on standard error and in a file (out.log):
 *
 *   2024-11-08 22:22:33,936 - root - INFO - Time taken for epoch 1 is 61.4 sec, avg 8.3 samples/sec
 *
 * Users' scripts parse these lines: the caller sets the wording, the frame is fixed. Times are
 * local, with milliseconds. There is one log per process, like Python's root logger.
 * Thread-safe. */
#ifndef DLR_LOG_H
#define DLR_LOG_H
#include "ir/base/status.h"

typedef enum { DLR_DEBUG, DLR_INFO, DLR_WARNING, DLR_ERROR } dlr_log_level;

/* Appends all later lines to the file at `path`, too. Errors: DL_IO. */
bool dlr_log_open(const char *path, dl_error *err);
/* Closes the file. Errors: DL_IO when a line since dlr_log_open could not be written (a full disk
 * does not stop a run). */
bool dlr_log_close(dl_error *err);
/* Drops lines below this level; the default is DLR_INFO. */
void dlr_log_set_level(dlr_log_level level);
/* Whether lines name the logger, " - root - INFO - " (true, the default), or are `2024-11-08
 * 22:22:33,936 INFO text`. */
void dlr_log_set_named(bool on);
/* Whether lines go to standard error, too (true, the default); ranks other than 0 switch it off. */
void dlr_log_set_stderr(bool on);
/* Prefixes lines on standard error with the rank, "rank 3: "; lines of the file have no prefix. -1,
 * the default: no prefix. */
void dlr_log_set_rank(int rank);

void dlr_log(dlr_log_level level, const char *format, ...) DL_PRINTF(2, 3);
#define dlr_log_debug(...)   dlr_log(DLR_DEBUG, __VA_ARGS__)
#define dlr_log_info(...)    dlr_log(DLR_INFO, __VA_ARGS__)
#define dlr_log_warning(...) dlr_log(DLR_WARNING, __VA_ARGS__)
#define dlr_log_error(...)   dlr_log(DLR_ERROR, __VA_ARGS__)
#endif
