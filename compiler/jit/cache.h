/* The cache of compiled kernels: a directory of the user's, mode 0700, one file a source,
 * published by one rename. */
#ifndef DL_CACHE_H
#define DL_CACHE_H
#include "ir/base/arena.h"

/* DLR_CACHE_DIR, else XDG_CACHE_HOME/dlc, else HOME/.cache/dlc; made if missing; its real path.
 * NULL: DL_IO when it cannot be made. DL_TRUST when it belongs to another user, is a link, or
 * others may write to it or to a directory in its path. Directories of the path must belong to
 * the user or root; sticky ones such as /tmp are fine. */
const char *dl_cache_dir(dl_arena *arena, dl_error *err);
/* The bytes stored under `key`, or NULL when there are none. A damaged or foreign file counts as
 * none. */
const unsigned char *dl_cache_get(dl_arena *arena, const char *dir, uint64_t key, size_t *n);
/* Whether a file in it belongs to the user alone: no link, and not writable for others. */
bool dl_cache_owns(const char *path);
/* Stores bytes under `key`, completely or not at all. */
bool dl_cache_put(const char *dir, uint64_t key, const void *data, size_t n, dl_error *err);
#endif
