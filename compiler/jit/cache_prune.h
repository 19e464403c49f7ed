/* The entries of a cache, and the removal of those that were not used for longest. */
#ifndef DL_CACHE_PRUNE_H
#define DL_CACHE_PRUNE_H
#include <time.h>

#include "compiler/jit/cache.h"

typedef struct {
    const char *name;
    const char *kind; /* "plan", "kernels", "kernels of a GPU", "note" */
    int64_t bytes;
    time_t used;
} dl_cache_entry;

/* The entries of a directory, the one that was used last at the end; *n of them, in the arena.
 * kinds: also what they hold, for which each is opened. NULL: DL_IO. A directory that is not there
 * has none. */
dl_cache_entry *dl_cache_list(dl_arena *arena, const char *dir, bool kinds, int *n, dl_error *err);

/* The bound of the user's cache in bytes: DLR_CACHE_MAX, 1 GiB without; 0: none. Errors: DL_USAGE,
 * no size. */
bool dl_cache_bound(int64_t *bytes, dl_error *err);

typedef struct {
    int files, removed;
    int64_t bytes, removed_bytes; /* before, and what was removed */
} dl_cache_pruned;
/* Removes entries, those first that were not used for longest, until `most` bytes are left at most.
 * Errors: DL_IO. */
bool dl_cache_prune(dl_arena *arena, const char *dir, int64_t most, dl_cache_pruned *done,
                    dl_error *err);
/* The same of the user's cache by its bound, after something was added. A bound that is no size is
 * a warning to `out`, or NULL. */
void dl_cache_prune_to_bound(const dl_cache *c, const dl_console *out);
#endif
