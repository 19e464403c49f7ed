/* What the kernels are made for: the CPU's vectors, chosen at run time. */
#ifndef DL_TARGET_H
#define DL_TARGET_H
#include "ir/base/status.h"

/* Blocking of the generated code. Emitted into every source as the constants of the same names. */
enum {
    DL_CHAIN = 256,          /* terms that a register tile adds in one chain before it goes to the sums */
    DL_PACK_ROWS = 32,       /* rows gathered at a time where a tap has few channels */
    DL_M_BLOCK = 128,        /* positions of a weight gradient whose packed operands stay in L1 */
    DL_RUN_BELOW = 8,        /* fewer channels than this: a weight gradient takes the taps along W together */
    DL_GRAD_ACC = 256 << 10, /* bytes of accumulators that a unit of a weight gradient may hold */
    DL_NARROW = 8,           /* channels made, at most, that are summed along lanes */
    DL_PACK_BELOW = 16,      /* fewer channels than this are gathered tap by tap into rows */
};

typedef struct {
    const char *name;     /* "cpu:avx512", "cpu:avx2", "cpu:generic" */
    int lanes;            /* f32 a vector */
    int panel;            /* width of weight panels: 2 vectors */
    int rows;             /* rows of the register tile: as many as there are registers for */
    int row_block;        /* whole tiles of rows of a contraction's accumulator that stay in cache */
    int grad_rows;        /* rows of a weight gradient's tile, which lie side by side: a power of 2 */
    const char *flags[4]; /* for the compiler, NULL-terminated */
} dl_target;

/* The target of that name ("cpu" or NULL: the best that this machine has). NULL: DL_USAGE for an unknown name
 * (lists the known ones), DL_RESOURCE for one that this CPU cannot run. */
const dl_target *dl_target_find(const char *name, dl_error *err);
#endif
