/* Shared by the emitters of CUDA kernels. */
#ifndef DL_EMIT_CUDA_H
#define DL_EMIT_CUDA_H
#include "compiler/cuda/cuda.h"
#include "compiler/emit_program.h"

enum {
    DL_WARP = 32,
    DL_BLOCK = 256,               /* threads of a block, where nothing speaks for another number */
    DL_GRID_MOST = INT32_MAX,     /* blocks of a launch */
    DL_SHARED_MOST = 99 * 1024,   /* dynamic shared memory of a block that every architecture here grants */
    DL_SHARED_STATIC = 48 * 1024, /* static */
};

/* How its coordinates and places are counted: by ints, or where these do not reach by longs. `within`: axes
 * whose points no number counts together with the others'. */
const dl_dialect *dl_cuda_dialect(const dl_kernel *k, unsigned within);

/* May a parameter's memory be another's, too, which the kernel writes? */
bool dl_cuda_is_shared(const dl_kernel *k, int param);
/* Begins the kernel's next phase: its head up to and with "{". The emitter's name is the function's. False,
 * refused: too many phases or blocks. */
bool dl_cuda_head(dl_emitter *e, dl_emitted *code, int64_t units, int threads, int64_t shared, dl_error *err);
/* Ends it: "}". */
void dl_cuda_foot(dl_emitter *e);
/* "const int x2 = 0;" in front of a body that names them, for axes of the space that it knows as one point.
 * `axes`: those that have a coordinate already, a bit each. */
void dl_cuda_still_axes(dl_emitter *e, unsigned axes, const dl_buf *body);

/* Kernels without a contraction: e->steps, partial and kept are there. emit_sweeps.c */
bool dl_cuda_sweeps(dl_emitter *e, dl_emitted *code, dl_error *err);
/* The same of kernels that may consist of strands: of each a text, if they are worth it. emit_strands.c */
bool dl_cuda_strands(dl_emitter *e, dl_emitted *code, dl_error *err);
/* A store at places that values tell. emit_scatter.c */
bool dl_cuda_scatter(dl_emitter *e, dl_emitted *code, dl_error *err);
/* Kernels around a contraction, by windows or by names. emit_contract.c */
bool dl_cuda_contraction(dl_emitter *e, int variant, dl_emitted *code, dl_error *err);
/* dl_backend.variants of such a kernel. */
int dl_cuda_tilings(dl_emitter *e, const char **names);
/* Numbers for the functions of those tilings that take at most `near` times what the first does; their
 * number. */
int dl_cuda_near_tilings(dl_emitter *e, double near, dl_cuda_way *ways);
/* The same with its product made by a library; dl_backend.calls. emit_call.c, emit_contract.c */
bool dl_cuda_around_call(dl_emitter *e, const dl_algorithm *by, dl_emitted *code, dl_error *err);
int dl_cuda_find_calls(dl_emitter *e, dl_call *forms);
/* The numbers in TF32 that attention's operands in f32, its shares and their gradients are made of. */
enum { DL_ATTENTION_PARTS = 2 };
/* Calls of attention and its gradients. emit_attention.c */
bool dl_cuda_attention(dl_emitter *e, int variant, dl_emitted *code, dl_error *err);
/* dl_backend.variants of such a kernel. */
int dl_cuda_attention_ways(dl_emitter *e, const char **names);
#endif
