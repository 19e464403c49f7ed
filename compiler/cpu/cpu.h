/* The CPU's backend: C with GCC vector types, compiled by the system's compiler. */
#ifndef DL_CPU_H
#define DL_CPU_H
#include "compiler/target/backend.h"

/* Blocking factors of the generated code, emitted into every source as constants of the same
 * names. */
enum {
    DL_CHAIN = 256, /* K elements that a register tile sums in one chain before it adds them to the
                       accumulator */
    DL_PACK_ROWS = 32, /* im2col rows at a time, where a tap has few channels */
    DL_M_BLOCK = 128,  /* positions of a weight gradient whose packed operands stay in L1 */
    DL_RUN_BELOW = 8,  /* fewer channels than this: a weight gradient merges the taps along W */
    DL_GRAD_ACC = 256 << 10, /* bytes of accumulators of one work item of a weight gradient */
    DL_WINOGRAD_LANES = 64,  /* lanes, and rows, of a block of a weight gradient by Winograd's */
    DL_WINOGRAD_ROWS = 64,   /* transforms whose accumulators are DL_GRAD_ACC bytes */
    DL_SMALL_N = 8,          /* small N: at most this many output channels are summed along lanes */
    DL_AMX_ROWS = 32,        /* an AMX strip: the rows of two tiles (kernels/amx.c) */
    DL_PACK_BELOW = 16,      /* fewer channels than this are gathered tap by tap into im2col rows */
};

/* Families of the hand-written loops of kernels/, a bit each: a library has one (library.h). */
enum {
    DL_LOOPS_CONTRACT = 1, /* windowed contractions that make an image; with groups, weights too */
    DL_LOOPS_WEIGHT = 2,   /* those that make a weight, and products with long sums */
    DL_LOOPS_GEMM = 4,
    DL_LOOPS_ATTENTION = 8,
    DL_LOOPS_FOURIER = 16,
    DL_LOOPS_COMPLEX = 32, /* complex contractions */
    DL_LOOPS_RECURRENCE = 64,
    DL_LOOPS_SCAN = 128,
    DL_LOOPS_SORT = 256
};

/* Parts of the prelude that a kernel needs in its source (dl_emitted.needs). */
enum {
    DL_NEED_LOOPS,  /* families of loops */
    DL_NEED_GROUPS, /* 1: convolutions in groups */
    DL_NEED_DRAWS,  /* 1: random numbers */
    DL_NEED_HALVES, /* types of 16 bits: f16 1, bf16 2 */
    DL_CPU_NEEDS
};
_Static_assert((int)DL_CPU_NEEDS <= (int)DL_NEEDS, "dl_emitted has room");

/* The CPU of that name, even if this machine is another one, to emit its text. NULL: there is
 * none. */
const dl_target *dl_cpu_target(const char *name);

/* Functions of dl_backend, in emit_cpu.c, cost.c */
bool dl_cpu_emit(dl_arena *arena, dl_buf *out, const dl_kernel *k, const dl_target *t,
                 dl_emitted *code, dl_error *err);
int dl_cpu_variants(const dl_kernel *k, const dl_target *t, const char **names);
double dl_cpu_predict(const dl_kernel *k, const dl_target *t);
double dl_cpu_serial(const dl_kernel *k, const dl_target *t);
/* Is the variant that its schedule names, or the first one, Winograd's? */
bool dl_cpu_by_winograd(const dl_kernel *k, const dl_target *t);
/* The tiles that one work item of it transforms and multiplies. */
int64_t dl_cpu_winograd_block(const dl_target *t);
/* Into how many parts a weight's gradient splits the positions of each block of sums (split-K). */
int64_t dl_cpu_weight_splits(int64_t blocks, int64_t positions);
#endif
