/* Compiles what the caches lack, once among all processes that lack it: the others wait. */
#ifndef DL_CACHE_FILL_H
#define DL_CACHE_FILL_H
#include "compiler/jit/cache.h"

typedef struct {
    void *of; /* the first argument of both */
    int n;    /* entries 0 to n-1 are wanted */
    const uint64_t *keys;
    /* Takes entry i from the caches; false: it is not there. first: it is asked for the first
     * time, the time to warn of one that is there and unusable. */
    bool (*take)(void *of, int i, bool first);
    /* Makes these n entries, and keeps them. */
    bool (*make)(void *of, int n, const int *which, dl_error *err);
} dl_cache_wants;

/* Takes or makes every entry; *made: how many were made. While another process of this machine, or
 * of another one that shares the user's cache, makes an entry, waits for it; where it ended
 * without, or takes ten minutes, makes the entry. The locks end with their process. Errors:
 * those of make. The caller then removes what is beyond the bound (cache_prune.h). */
bool dl_cache_fill(dl_arena *arena, const dl_cache *c, const dl_cache_wants *wants,
                   const dl_console *out, int *made, dl_error *err);
#endif
