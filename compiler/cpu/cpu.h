/* The CPU's backend: C of this house's vectors, compiled by the system's compiler. */
#ifndef DL_CPU_H
#define DL_CPU_H
#include "compiler/target/backend.h"

/* Blocking of the generated code. Emitted into every source as the constants of the same names. */
enum {
    DL_CHAIN = 256,    /* terms that a register tile adds in one chain before it goes to the sums */
    DL_PACK_ROWS = 32, /* rows gathered at a time where a tap has few channels */
    DL_M_BLOCK = 128,  /* positions of a weight gradient whose packed operands stay in L1 */
    DL_RUN_BELOW =
        8, /* fewer channels than this: a weight gradient takes the taps along W together */
    DL_GRAD_ACC = 256 << 10, /* bytes of accumulators that a unit of a weight gradient may hold */
    DL_NARROW = 8,           /* channels made, at most, that are summed along lanes */
    DL_BAND = 32,            /* rows of two tiles of AMX (kernels/bands.c) */
    DL_PACK_BELOW = 16,      /* fewer channels than this are gathered tap by tap into rows */
};

/* The loops of kernels/ around which a kernel is written: compiled once a source. */
typedef enum {
    DL_LOOPS_NONE,
    DL_LOOPS_IMAGE,  /* contractions by windows: of an image, */
    DL_LOOPS_WEIGHT, /* of a weight, */
    DL_LOOPS_GROUP,  /* of either, with groups */
    DL_LOOPS_PRODUCT,
    DL_LOOPS_ATTENTION,
    DL_NLOOPS
} dl_loops;

/* What a kernel must find in its source (dl_emitted.needs). */
enum {
    DL_NEED_LOOPS,     /* 1 << its dl_loops */
    DL_NEED_CONTRACTS, /* 1: the contraction preludes */
    DL_NEED_DRAWS,     /* 1: random numbers */
    DL_NEED_HALVES,    /* types of 16 bits: f16 1, bf16 2 */
    DL_NEED_ENDS, /* of attention's tiles: one and two vectors set, one and two summed, a bit each;
                     then floats, pairs */
    DL_NEED_GRAD_ROWS, /* heights of weight-gradient tiles that it calls, a bit each */
    DL_NEED_PAIR_ROWS, /* the same of pairs */
    DL_CPU_NEEDS
};
_Static_assert((int)DL_CPU_NEEDS <= (int)DL_NEEDS, "dl_emitted has room");

/* The CPU of that name, whether or not this machine is one: to emit its text. NULL: there is none.
 */
const dl_target *dl_cpu_target(const char *name);

/* dl_backend's functions. emit_cpu.c, share.c, cost.c */
bool dl_cpu_emit(dl_buf *out, const dl_kernel *k, const dl_target *t, dl_way way, dl_emitted *code,
                 dl_error *err);
void dl_cpu_open(dl_buf *out, const dl_target *t, const dl_emitted *needs);
int dl_cpu_share(int n, dl_piece *pieces);
double dl_cpu_predict(const dl_kernel *k, const dl_target *t);
#endif
