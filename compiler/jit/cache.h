/* The cache of compiled kernels: a directory of ours, mode 0700, one file a source, published by
 * one rename. */
#ifndef DL_CACHE_H
#define DL_CACHE_H
#include "ir/base/arena.h"

/* DLR_CACHE_DIR, else XDG_CACHE_HOME/dlc, else HOME/.cache/dlc; made if missing; its real
 * path. NULL: DL_IO when it cannot be made, DL_TRUST when it is not ours, is a link, or others may
 * write to it or to a directory on the way to it (whose owner is us or root; sticky ones, as /tmp,
 * will do). */
const char *dl_cache_dir(dl_arena *arena, dl_error *err);
/* The bytes stored under `key`, or NULL when there are none (a damaged or foreign file counts as
 * none). */
const unsigned char *dl_cache_get(dl_arena *arena, const char *dir, uint64_t key, size_t *n);
/* Whether a file in it is ours alone: no link, of no other user, not for others to write. */
bool dl_cache_owns(const char *path);
/* Stores bytes under `key`, whole or not at all. */
bool dl_cache_put(const char *dir, uint64_t key, const void *data, size_t n, dl_error *err);
#endif
