/* The few file-system steps that every writer of this room shares. */
#ifndef DLR_FS_H
#define DLR_FS_H
#include "ir/base/status.h"
#include <stddef.h>
#include <stdint.h>

/* Writes all n bytes, through short writes and interruptions. False: errno says why. */
bool dlr_write_all(int fd, const void *data, size_t n);
/* Appends one record to an open file at `*end` whole or not at all: after a failure the file is cut back to
 * where it was. Advances `*end`. Errors: DL_IO with path and cause. */
bool dlr_append(int fd, const char *path, const void *data, size_t n, int64_t *end, dl_error *err);
/* Reads exactly n bytes at an offset. Errors: DL_IO with path and cause, a file that ends too early among
 * them. */
bool dlr_read_at(int fd, const char *path, void *dst, size_t n, int64_t offset, dl_error *err);
/* Makes the names in a directory durable (fsync). Errors: DL_IO; a failed fsync is final and is not tried
 * again. */
bool dlr_sync_dir(const char *path, dl_error *err);
/* Removes a file, a link (not what it points to) or a directory with all it holds; absent is fine. Errors:
 * DL_IO. */
bool dlr_remove_tree(const char *path, dl_error *err);
#endif
