/* C sources -> shared objects, by the system's compiler; no shell, several processes at once, cached on disk.
 */
#ifndef DL_JIT_CC_H
#define DL_JIT_CC_H
#include "compiler/target.h"
#include "ir/plan.h"

/* Compiles sources[i].source into sources[i].image (and sets key and bytes), each from the cache when it is
 * there; fills *compiled with how many were not. The compiler is $CC (one word), else cc, gcc or clang on
 * PATH. Errors: DL_RESOURCE when there is no compiler or it fails (with its first message), DL_IO, DL_TRUST
 * (cache). */
bool dl_jit_compile(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t, int *compiled,
                    dl_error *err);
#endif
