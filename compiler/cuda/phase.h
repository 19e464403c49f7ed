/* A phase of a CUDA kernel as C++, as all emitters write it: how it counts, its head, its end, and
 * the coordinates that its body names and its loops do not set. */
#ifndef DL_CUDA_PHASE_H
#define DL_CUDA_PHASE_H
#include "compiler/codegen/emit_program.h"
#include "compiler/cuda/cuda.h"

enum {
    DL_WARP = 32,
    DL_BLOCK = 256,           /* threads of a block, where nothing speaks for another number */
    DL_GRID_MOST = INT32_MAX, /* blocks of a launch */
    DL_SHARED_MOST =
        99 * 1024, /* dynamic shared memory of a block that every architecture here grants */
    DL_SHARED_STATIC = 48 * 1024, /* static */
};

/* How its coordinates and places are counted: by ints, or where these do not reach by longs.
 * `within`: axes whose points no number counts together with the others'. */
const dl_dialect *dl_cuda_dialect(const dl_kernel *k, unsigned within);

/* May a parameter's memory be another's, too, which the kernel writes? */
bool dl_cuda_is_shared(const dl_kernel *k, int param);
/* Begins the kernel's next phase: its head up to and with "{". The emitter's name is the
 * function's. False, refused: too many phases or blocks. */
bool dl_cuda_head(dl_emitter *e, dl_emitted *code, int64_t units, int threads, int64_t shared,
                  dl_error *err);
/* Ends it: "}". */
void dl_cuda_foot(dl_emitter *e);
/* "const int x2 = 0;" in front of a body that names them, for axes of the space that it knows as
 * one point. `axes`: those that have a coordinate already, a bit each. */
void dl_cuda_still_axes(dl_emitter *e, unsigned axes, const dl_buf *body);
#endif
