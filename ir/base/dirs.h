/* Directories: made, made durable, removed. */
#ifndef DL_DIRS_H
#define DL_DIRS_H
#include "ir/base/status.h"
#include <stddef.h>

/* mkdir -p with the given mode for what it makes. Errors: DL_IO with path and cause. */
bool dl_make_dirs(const char *path, unsigned mode, dl_error *err);
/* Makes the names in a directory durable (fsync). Succeeds for a directory that we may write but
 * not read, and where the file system has nothing to do. Errors: DL_IO; a failed fsync is final. */
bool dl_sync_dir(const char *path, dl_error *err);
/* Removes a file, a link (not what it points to) or a directory with all it holds; absent is fine.
 * Errors: DL_IO. */
bool dl_remove_tree(const char *path, dl_error *err);
/* Makes `link` a symbolic link to `target`, replacing an earlier link in one atomic step: it makes
 * LINK.tmp in the same directory and renames it. Durable. Errors: DL_IO with path and cause. */
bool dl_replace_link(const char *link, const char *target, dl_error *err);
/* The directory that a path's last name stands in, into `dir` of `n` bytes: "." without a slash.
 * False when it does not fit. */
bool dl_parent_dir(const char *path, char *dir, size_t n);
#endif
