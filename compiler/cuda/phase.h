/* A phase of a CUDA kernel as C++, for all emitters: its index types and its parts. */
#ifndef DL_CUDA_PHASE_H
#define DL_CUDA_PHASE_H
#include "compiler/codegen/emit_program.h"
#include "compiler/codegen/holes.h"
#include "compiler/cuda/cuda.h"

enum {
    DL_WARP = 32,
    DL_BLOCK = 256,              /* default threads per CTA */
    DL_GRID_MOST = INT32_MAX,    /* CTAs of a launch */
    DL_SHARED_TILES = 99 * 1024, /* dynamic shared memory that tiles of mma.sync fill at most */
    DL_SHARED_STATIC = 2 * 1024, /* shared memory that such a kernel declares, at most */
    DL_SHARED_OF_SYSTEM = 1024,  /* that each CTA of an SM takes in addition */
};

/* Bytes of dynamic shared memory that a CTA with tiles may have on the target, and that tiles of
 * mma.sync may fill. */
static inline int64_t dl_cuda_dynamic_most(const dl_target *t) {
    return (int64_t)t->shared * 1024 - DL_SHARED_STATIC;
}
static inline int64_t dl_cuda_tile_room(const dl_target *t) {
    int64_t own = dl_cuda_dynamic_most(t);
    return own < DL_SHARED_TILES ? own : DL_SHARED_TILES;
}

/* The types of its coordinates and indices: int, or long where int is too small. `within`: axes
 * whose points are not counted together with the others'. */
const dl_dialect *dl_cuda_dialect(const dl_kernel *k, unsigned per_thread);

/* "by_sum": the operator that combines two values of a reduction. */
const char *dl_cuda_operator(const dl_kinstr *in);

/* May a parameter share memory with another one that the kernel writes? */
bool dl_cuda_is_shared(const dl_kernel *k, int param);
/* Begins the kernel's next phase. The text so far becomes its structs, and those of the phases
 * after it; then comes its body. False, refused: too many phases or CTAs. */
bool dl_cuda_head(dl_emitter *e, dl_emitted *code, int64_t items, int threads, int64_t shared,
                  dl_error *err);
/* The epilogue of the phase's loop over tiles follows. */
void dl_cuda_begin_epilogue(dl_emitter *e);
/* Ends it: "}". It becomes the last of code->texts. `cost`: dl_phase.cost. */
void dl_cuda_foot(dl_emitter *e, dl_emitted *code, int cost);
#endif
