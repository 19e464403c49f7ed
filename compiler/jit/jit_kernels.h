/* Kernels one by one: each is kept by its text, so that a plan compiles those alone that no plan
 * before it had. */
#ifndef DL_JIT_KERNELS_H
#define DL_JIT_KERNELS_H
#include "compiler/jit/cache.h"
#include "compiler/jit/jit_run.h"

/* The linker's work for an object. */
typedef struct {
    int nfiles;
    const char *const *files; /* relocatable objects with its kernels, in the work folder */
    const char *const *flags; /* NULL-terminated: the kernels' names in the plan, and no other
                                 function */
} dl_jit_linkage;

/* Finds or compiles the kernels of n objects: where the cache lacks some, in as many sources as
 * there are CPUs, which it then keeps. The cache has an index for each opening and compiler: which
 * of its relocatable objects holds which kernel. Of two processes that add to an index at once one
 * may lose, and its kernels are compiled again. *stopped: the signal that interrupted the compiler.
 * Errors: those of dl_jit_run, dl_write_file and dl_cache_keep. */
bool dl_jit_find_kernels(dl_arena *arena, const dl_jit_way *way, const dl_cache *cache, int n,
                         const dl_plan_object *const *objects, const char *work,
                         const dl_console *out, int *stopped, dl_jit_linkage *linkage,
                         dl_error *err);
#endif
