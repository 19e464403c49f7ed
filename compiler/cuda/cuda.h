/* The CUDA backend: header-free CUDA C++, compiled by NVRTC for one architecture; or, emulated, by
 * the system's C++ compiler behind another prelude, whose blocks run on the CPU.
 *
 * A phase p of a kernel is
 *     extern "C" __global__ void <symbol>_<p>(T0 *p0, T1 *p1, ..., char *workspace)
 * with a typed pointer a kernel parameter, in order, and the workspace behind them, as emitters
 * write it; fold.c makes of it what the plan has (ir/plan/plan.h). Grid and block have one
 * dimension: the plan's units and threads; `shared` are the bytes of dynamic shared memory. */
#ifndef DL_CUDA_H
#define DL_CUDA_H
#include "compiler/target/backend.h"

/* With which a phase's text begins; behind it launch bounds, ") " and its name. */
#define DL_CUDA_HEAD "extern \"C\" __global__ void __launch_bounds__("

/* What a kernel must find in its source (dl_emitted.needs), 1 each. */
enum {
    DL_NEED_TILES,     /* contractions: kernels/contract.cu */
    DL_NEED_HALO,      /* of them those by boxes with their halos: kernels/contract_halo.cu */
    DL_NEED_GROUPS,    /* those by wgmma: kernels/warpgroup.cu, kernels/contract_groups.cu */
    DL_NEED_ATTENTION, /* kernels/attention.cu */
    DL_NEED_SWEEPS,    /* lots and groups of threads: kernels/sweeps.cu */
    DL_CUDA_NEEDS
};
/* Numbers and pointers that a launch gives a kernel of strands (fold_strands.c), at most: 4 KiB
 * hold 512. */
enum { DL_TABLE_NUMBERS = 240, DL_TABLE_POINTERS = 256 };
/* What a function around tensor cores takes to compile beside its text, in other functions; one of
 * halos, whose taps are written out. */
enum { DL_CUDA_TEMPLATE = 4, DL_CUDA_HALO = 24 };
_Static_assert((int)DL_CUDA_NEEDS <= (int)DL_NEEDS, "dl_emitted has room");

/* dl_backend's functions. emit_cuda.c, settle.c, fold.c, share.c, cost.c */
int dl_cuda_variants(const dl_kernel *k, const dl_target *t, const char **names);
/* A way of a contraction: a number for the function that it would be of, and what it should take,
 * in products of a multiprocessor. */
typedef struct {
    uint64_t function;
    double time;
} dl_cuda_way;
/* Those whose time is at most `near` times the first one's, up to DL_MOST_VARIANTS; how many these
 * are, 0 of what is no contraction by tiles. emit_contract.c */
int dl_cuda_near(const dl_kernel *k, const dl_target *t, double near, dl_cuda_way *ways);
void dl_cuda_settle(dl_arena *arena, int n, dl_coded *kernels, const dl_target *t);
int dl_cuda_calls(const dl_kernel *k, const dl_target *t, dl_call *forms);
bool dl_cuda_emit(dl_buf *out, const dl_kernel *k, const dl_target *t, dl_way way, dl_emitted *code,
                  dl_error *err);
void dl_cuda_open(dl_buf *out, const dl_target *t, const dl_emitted *needs);
/* A divisor, 1 to 2^31 - 1, as kernels' arguments (kd_divisor in kernels/prelude.cu):
 * x / d, x below 2^31, is x times the upper half of number[0], >> number[1]. The lower half is d.
 */
void dl_cuda_divisor(int64_t d, int64_t number[2]);
dl_piece *dl_cuda_fold(dl_arena *arena, int *n, dl_piece *kernels);
void dl_cuda_feed(dl_buf *out, const dl_target *t);
int dl_cuda_share(int n, dl_piece *pieces);
double dl_cuda_predict(const dl_kernel *k, const dl_target *t);
#endif
