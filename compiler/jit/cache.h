/* The caches of compiled kernels and plans: a directory of the user's, mode 0700, one file an
 * entry, published by one rename; and directories that are only read: of others (DLR_CACHE_PATH),
 * and that of the installation. An entry may vanish at any time (cache_prune.h): what was read is
 * in memory. */
#ifndef DL_CACHE_H
#define DL_CACHE_H
#include "ir/base/arena.h"
#include "ir/base/console.h"

typedef struct {
    const char *own;         /* the user's directory; NULL: it cannot be written, nothing is kept */
    const char *const *dirs; /* looked at in this order: the user's, then shared ones */
    int ndirs, first_shared;
} dl_cache;

/* Opens the caches. A home that cannot be written is a warning to `out` (or NULL), once a process,
 * and so is a directory of DLR_CACHE_PATH that is not trusted; one that is not there is passed
 * over. NULL: DL_TRUST of dl_cache_dir, and DL_IO where DLR_CACHE_DIR names what cannot be made. */
const dl_cache *dl_cache_open(dl_arena *arena, const dl_console *out, dl_error *err);
/* The directories that are only read alone. */
const dl_cache *dl_cache_open_shared(dl_arena *arena, const dl_console *out);
/* The bytes stored under `key`, or NULL when there are none. A damaged or foreign file counts as
 * none. */
const unsigned char *dl_cache_find(dl_arena *arena, const dl_cache *c, uint64_t key, size_t *n);
/* The path of a file that lies in a cache by this name and that nobody else may write; or NULL. */
const char *dl_cache_find_file(dl_arena *arena, const dl_cache *c, const char *name);
/* Stores bytes under `key` in the user's cache. Where it cannot be written (DL_IO: a full disk, a
 * quota), that is a warning to `out`, once a process. Other errors: those of dl_write_file. */
bool dl_cache_keep(const dl_cache *c, uint64_t key, const void *data, size_t n,
                   const dl_console *out, dl_error *err);
/* Whether an outcome of writing to the cache lets the work go on: gives that warning of DL_IO. */
bool dl_cache_is_kept(const dl_error *why, const dl_console *out);

/* ---- one directory ---- */

/* The user's: DLR_CACHE_DIR, else XDG_CACHE_HOME/dlc, else HOME/.cache/dlc; made if missing; its
 * real path. NULL: DL_IO when it cannot be made, DL_TRUST (cache_trust.h). */
const char *dl_cache_dir(dl_arena *arena, dl_error *err);
/* Its path as the environment has it, looked at by nobody; NULL without a HOME. */
const char *dl_cache_own_path(dl_arena *arena);
/* As dl_cache_find, in the user's directory `dir` alone. */
const unsigned char *dl_cache_get(dl_arena *arena, const char *dir, uint64_t key, size_t *n);
/* Whether a file in it belongs to the user alone: no link, and not writable for others. */
bool dl_cache_owns(const char *path);
/* Stores bytes under `key`, completely or not at all. */
bool dl_cache_put(const char *dir, uint64_t key, const void *data, size_t n, dl_error *err);
#endif
