/* The CUDA backend: CUDA C++ without headers, compiled by NVRTC for one architecture; or,
 * emulated, by the system's C++ compiler with another prelude, whose CTAs run on the CPU.
 *
 * Emitters write the phases of a kernel (phase.h), which merge.c turns into functions in the
 * plan's form (ir/plan/plan.h). Grid and block have one dimension: the plan's items and
 * threads; `shared` is the size of dynamic shared memory. */
#ifndef DL_CUDA_H
#define DL_CUDA_H
#include "compiler/target/backend.h"
#include "ir/kernel/schedule.h"

/* The head of a phase's text; launch bounds, ") " and its name follow. */
#define DL_CUDA_HEAD "extern \"C\" __global__ void __launch_bounds__("

/* Parts of the prelude that a kernel needs in its source (dl_emitted.needs), 1 each. */
enum {
    DL_NEED_TILES, /* contractions: kernels/contract.cu */
    DL_NEED_HALO,  /* halo kernels among them: kernels/contract_halo.cu */
    DL_NEED_WGMMA, /* wgmma kernels among them: kernels/warpgroup.cu, kernels/contract_wgmma.cu */
    DL_NEED_ATTENTION,  /* kernels/attention.cu */
    DL_NEED_LOOPS,      /* vector accesses and reductions by lane groups: kernels/loops.cu */
    DL_NEED_FOURIER,    /* 1: kernels/fourier.cu, 2: kernels/complex.cu */
    DL_NEED_RECURRENCE, /* kernels/recurrence.cu */
    DL_NEED_SCAN,       /* kernels/scan.cu */
    DL_NEED_SORT,       /* kernels/sort.cu */
    DL_CUDA_NEEDS
};
/* At most so many numbers and pointers in the launch table of horizontally fused kernels
 * (merge_fused_parts.c): 4 KiB hold 512. */
enum { DL_TABLE_NUMBERS = 240, DL_TABLE_POINTERS = 256 };
/* Compile time, as a number of functions, of a tensor-core template; and of a halo kernel, whose
 * taps are unrolled. */
enum { DL_CUDA_TEMPLATE = 4, DL_CUDA_HALO = 24 };
_Static_assert((int)DL_CUDA_NEEDS <= (int)DL_NEEDS, "dl_emitted has room");

/* Functions of dl_backend, in emit_cuda.c, consolidate_variants.c, merge.c, assign_sources.c,
 * cost.c */
int dl_cuda_variants(const dl_kernel *k, const dl_target *t, const char **names);
/* A variant of a contraction: its name, a number that identifies its function, and its estimated
 * time, in products of one SM. */
typedef struct {
    const char *name;
    uint64_t function;
    double time;
} dl_cuda_variant;
/* The variants whose estimated time is at most `near` times the first one's, up to
 * DL_MOST_VARIANTS. Returns their number; 0 if the kernel is no tiled contraction.
 * emit_contract.c */
int dl_cuda_near(const dl_kernel *k, const dl_target *t, double near, dl_cuda_variant *variants);
void dl_cuda_consolidate(dl_arena *arena, int n, dl_kernel *const *kernels, const dl_target *t);
int dl_cuda_calls(const dl_kernel *k, const dl_target *t, dl_call *forms);
extern const dl_loop_rules dl_cuda_loops;
bool dl_cuda_emit(dl_arena *arena, dl_buf *out, const dl_kernel *k, const dl_target *t,
                  dl_emitted *code, dl_error *err);
void dl_cuda_open(dl_buf *out, const dl_target *t, const dl_emitted *needs);
/* A divisor, 1 to 2^31 - 1, as arguments of kernels (kd_divisor in kernels/prelude.cu): for x
 * below 2^31, x / d is the upper half of x times number[0]'s upper half, >> number[1]. The lower
 * half is d. */
void dl_cuda_divisor(int64_t d, int64_t number[2]);
dl_piece *dl_cuda_merge(dl_arena *arena, int *n, dl_piece *kernels);
void dl_cuda_feed(dl_buf *out, const dl_target *t);
int dl_cuda_assign_sources(int n, dl_piece *pieces, int threads);
double dl_cuda_predict(const dl_kernel *k, const dl_target *t);
#endif
