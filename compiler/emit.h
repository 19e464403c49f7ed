/* Kernel IR -> C for the CPU. One kernel becomes up to two functions (plan.h: the kernel ABI). */
#ifndef DL_EMIT_H
#define DL_EMIT_H
#include "compiler/target.h"
#include "ir/kernel.h"
#include "ir/plan.h"

/* The loops of compiler/kernels/ around which a kernel is written: compiled once a source. */
typedef enum {
    DL_LOOPS_NONE,
    DL_LOOPS_IMAGE,  /* contractions by windows: of an image, */
    DL_LOOPS_WEIGHT, /* of a weight, */
    DL_LOOPS_GROUP,  /* of either, with groups */
    DL_LOOPS_PRODUCT,
    DL_LOOPS_ATTENTION,
    DL_NLOOPS
} dl_loops;

/* How a kernel's code is to be launched. */
typedef struct {
    int phases;
    int64_t units[DL_MAX_PHASES], workspace, scratch; /* bytes */
    bool contracts;                                   /* needs the contraction preludes */
    bool draws;                                       /* needs the random numbers' prelude */
    bool attends;                                     /* needs attention's prelude */
    bool groups;                                      /* needs that of contractions in groups */
    dl_loops loops;
    unsigned
        attention_ends; /* of attention's tiles: one and two vectors set, one and two summed, a bit each */
    unsigned grad_rows; /* heights of weight-gradient tiles it calls, a bit each */
    unsigned halves;    /* types of 16 bits: f16 1, bf16 2 */
} dl_emitted;

/* What a source begins with: block sizes and the preludes in compiler/kernels/, as its kernels together need
 * them (contracts, draws, attends, groups, attention_ends, grad_rows, halves). */
void dl_emit_prelude(dl_buf *out, const dl_target *t, const dl_emitted *needs);
/* Appends the code of one kernel, exporting <name>_0 and perhaps <name>_1.
 * Errors: DL_INPUT for operands beyond what a CPU kernel addresses. */
bool dl_emit_kernel(dl_buf *out, const dl_kernel *k, const dl_target *t, dl_emitted *code, dl_error *err);
#endif
