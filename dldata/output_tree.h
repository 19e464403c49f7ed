/* A directory of data that appears whole or not at all. */
#ifndef DLDATA_OUTPUT_TREE_H
#define DLDATA_OUTPUT_TREE_H
#include "ir/base/output.h"

/* Whether a directory can be made there with `need` bytes in it: nothing, or an empty directory,
 * stands there, the parent (made if missing) can be written, and its disk has the space. Errors:
 * DL_USAGE, DL_IO. */
bool output_tree_prepare(const char *path, uint64_t need, dl_error *err);
/* PATH/NAME in `to` of `n` bytes, with the directories of NAME made below the open directory. */
bool output_tree_path(const dl_output_dir *d, char *to, size_t n, dl_error *err, const char *format,
                      ...) DL_PRINTF(5, 6);
#endif
