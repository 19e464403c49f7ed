/* Writes a directory of data atomically. */
#ifndef DLDATA_OUTPUT_TREE_H
#define DLDATA_OUTPUT_TREE_H
#include "ir/base/output.h"

/* Checks that a directory with `need` bytes can be made there: the path does not exist or is an
 * empty directory, the parent (made if missing) is writable, and its disk has the space. Errors:
 * DL_USAGE, DL_IO. */
bool output_tree_prepare(const char *path, uint64_t need, dl_error *err);
/* Writes PATH/NAME to `to` (of `n` bytes), and makes the directories of NAME below the open
 * directory. */
bool output_tree_path(const dl_output_dir *d, char *to, size_t n, dl_error *err, const char *format,
                      ...) DL_PRINTF(5, 6);
#endif
