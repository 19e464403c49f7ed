/* Log lines as Python's logging prints them, on standard error and in a file (out.log):
 *
 *   2024-11-08 22:22:33,936 - root - INFO - Time taken for epoch 1 is 61.425346 sec, avg 8.335321
 * samples/sec
 *
 * Scripts that people have parse these: the wording is the caller's, the frame is fixed. Local
 * time, milliseconds. There is one log a process, as Python has one root logger. Thread-safe. */
#ifndef DLR_LOG_H
#define DLR_LOG_H
#include "ir/base/status.h"

typedef enum { DLR_DEBUG, DLR_INFO, DLR_WARNING, DLR_ERROR } dlr_log_level;

/* Appends every further line to the file at `path` too. Errors: DL_IO. */
bool dlr_log_open(const char *path, dl_error *err);
/* Ends that. Errors: DL_IO when a line since dlr_log_open could not be written (a full disk does
 * not stop a run). */
bool dlr_log_close(dl_error *err);
/* Lines below this level are dropped; DLR_INFO at first. */
void dlr_log_set_level(dlr_log_level level);
/* Whether lines name the logger, " - root - INFO - " (true, at first), or are `2024-11-08
 * 22:22:33,936 INFO text`. */
void dlr_log_set_named(bool on);
/* Where lines go besides the file: standard error (true, at first) or nowhere (a rank other than
 * 0). */
void dlr_log_set_stderr(bool on);
/* Lines of a rank, "rank 3: ", as they begin on standard error; the file's stay as they are. -1, at
 * first: none. */
void dlr_log_set_rank(int rank);

void dlr_log(dlr_log_level level, const char *format, ...) DL_PRINTF(2, 3);
#define dlr_log_debug(...)   dlr_log(DLR_DEBUG, __VA_ARGS__)
#define dlr_log_info(...)    dlr_log(DLR_INFO, __VA_ARGS__)
#define dlr_log_warning(...) dlr_log(DLR_WARNING, __VA_ARGS__)
#define dlr_log_error(...)   dlr_log(DLR_ERROR, __VA_ARGS__)
#endif
