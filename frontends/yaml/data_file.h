/* Finds files that are installed with the program: models and their configurations. */
#ifndef DL_DATA_FILE_H
#define DL_DATA_FILE_H
#include "ir/base/arena.h"

/* The path of an existing file: `path` itself when it is absolute, else under the current
 * directory, else in share/dlc of the prefix that the program lies in, else under the program's
 * directory or one of the four above it (a build inside a checkout), else in share/dlc of the
 * prefix that was configured. NULL and DL_IO when there is none, with the searched places. */
const char *dl_find_data_file(dl_arena *arena, const char *path, dl_error *err);
#endif
