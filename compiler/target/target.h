/* What the kernels are made for: a CPU's vectors or a GPU's architecture, chosen at run time. */
#ifndef DL_TARGET_H
#define DL_TARGET_H
#include "ir/type.h"

typedef struct {
    const char *name;                 /* "cpu:avx512", "cpu:generic", "cuda:sm_90a", ... */
    const struct dl_backend *backend; /* what is done with kernels (backend.h) */
    dl_layout weights;                /* how contractions by windows want them to lie */
    unsigned
        low_products; /* types of 16 bits that it multiplies, 1 << dl_dtype: weights are kept in them, too */
    unsigned written_out; /* types of contractions and templates that it has no kernels for (pass products) */
    bool has_tf32;
    int balance; /* about how much arithmetic, in flops, it does in the time of a byte of memory; 0:
                    DL_CORE_BALANCE */
    /* CPUs */
    bool tiles;           /* it multiplies bf16 by the tiles of AMX */
    int lanes;            /* f32 a vector */
    int panel;            /* width of weight panels: 2 vectors */
    int rows;             /* rows of the register tile: as many as there are registers for */
    int row_block;        /* whole tiles of rows of a contraction's accumulator that stay in cache */
    int grad_rows;        /* rows of a weight gradient's tile, which lie side by side: a power of 2 */
    const char *flags[8]; /* for the compiler, NULL-terminated */
    bool emulated;        /* tests run its kernels on a CPU that is not of this kind, or without a GPU */
    /* GPUs */
    const char *arch; /* "sm_90a": what NVRTC compiles for */
    bool has_wgmma;   /* warps in fours multiply tiles in shared memory */
    bool has_maps;    /* tensor maps bring them there */
} dl_target;

/* The target of that name ("cpu" or NULL: the best CPU that this machine is). NULL: DL_USAGE for an unknown
 * name (lists the known ones), DL_RESOURCE for one that cannot be compiled for or run here. */
const dl_target *dl_target_find(const char *name, dl_error *err);
#endif
