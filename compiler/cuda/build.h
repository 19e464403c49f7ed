/* CUDA texts -> cubins: from the cache, or by NVRTC on as many threads as there are CPUs.
 * compiler/jit/jit_cc.h does the same for C. */
#ifndef DL_CUDA_BUILD_H
#define DL_CUDA_BUILD_H
#include "compiler/target/target.h"
#include "ir/base/console.h"
#include "ir/plan/plan.h"

/* NVRTC's `key`, combined with its options here: together with a source it determines an image. */
uint64_t dl_cuda_options_key(uint64_t key);

/* Compiles objects[i].source for a GPU, of which t->arch and t->registers count, into
 * objects[i].image (and sets key and bytes), each from the cache when it is there; equal sources
 * are compiled once; fills *compiled with how many were compiled. What comes out depends on the
 * sources alone, not on threads. Every image is read (ir/plan/cubin.h) before it is used or kept.
 * `out` (or NULL) is told of a cached image that is damaged and compiled anew. Errors: DL_RESOURCE
 * when there is no NVRTC, when it does not know the architecture, and for a source with errors (of
 * several, the first by index); DL_IO, DL_TRUST (cache).
 */
bool dl_cuda_build(dl_arena *arena, int n, dl_plan_object *objects, const dl_target *t,
                   const dl_console *out, int *compiled, dl_error *err);
#endif
