/* A target of compilation: a CPU's vectors or a GPU's architecture, chosen at run time. */
#ifndef DL_TARGET_H
#define DL_TARGET_H
#include "ir/type.h"

typedef struct {
    const char *name;                 /* "cpu:avx512", "cpu:generic", "cuda:sm_90a", ... */
    const struct dl_backend *backend; /* the functions that make its code (backend.h) */
    dl_layout weights;                /* the layout of convolution weights */
    unsigned half_gemms; /* 16-bit types that it multiplies, 1 << dl_dtype: weights have copies in
                              them */
    unsigned expanded;   /* types of contractions and templates without kernels (pass
                               legalize_contractions) */
    bool has_tf32;
    int balance; /* arithmetic intensity at which compute and memory take the same time, in flops a
                    byte; 0: DL_CORE_BALANCE */
    const struct dl_contraction_rules *contractions; /* ir/kernel/contraction_rules.h */
    const struct dl_loop_rules *loops; /* how its kernels' loops run (ir/kernel/schedule.h) */
    /* CPUs */
    bool tiles;           /* it multiplies bf16 by AMX tiles */
    bool winograd;        /* kernels may be of the variant of ir/kernel/winograd.h */
    int lanes;            /* f32 a vector */
    int panel;            /* width of weight panels: 2 vectors */
    int rows;             /* rows of the register tile, as registers allow */
    int row_block;        /* rows, in whole tiles, of a contraction's accumulator that stay in
                             cache */
    int grad_rows;        /* contiguous rows of a weight gradient's register tile: a power of 2 */
    const char *flags[8]; /* for the compiler, NULL-terminated */
    bool emulated;        /* tests run its kernels on a CPU that is not of this kind, or without a
                             GPU */
    /* GPUs */
    const char *arch; /* "sm_90a": what NVRTC compiles for */
    bool has_wgmma;   /* wgmma: warpgroups multiply tiles in shared memory */
    bool has_maps;    /* TMA: tensor maps copy tiles there */
    struct {
        int major, least, most;
    } runs_on;  /* devices of compute capability <major>.<least> to <major>.<most>; major 0: none */
    bool timed; /* attention was timed on this device, for the cost model */
    int multiprocessors;
    double half, tf32, f32, f64; /* dense products, TFLOP/s by data sheets; */
    double tbytes;               /* memory, TB/s */
    double sync;                 /* share of the tensor cores' rate that mma.sync reaches */
    int shared, shared_of_sm;    /* KiB of shared memory: that a block may have; of an SM */
    int registers;               /* of an SM */
} dl_target;

/* The target of that name ("cpu" or NULL: the best CPU that this machine is). A GPU's for a number
 * of multiprocessors ("cuda:sm_90a/66") is made in the arena, which is not NULL if `name` may be
 * such a name; all others are constant. NULL: DL_USAGE for an unknown name (lists the known ones),
 * DL_RESOURCE for one that cannot be compiled for or run here. */
const dl_target *dl_target_find(dl_arena *arena, const char *name, dl_error *err);
/* The same target, whose kernels are not of the variant of ir/kernel/winograd.h. In the arena. */
const dl_target *dl_target_without_winograd(dl_arena *arena, const dl_target *t);
/* The names of targets for help texts: "cpu (the best here), cpu:avx512, ...". */
extern const char dl_target_names[];
/* The newest target whose code runs on a GPU of that compute capability. NULL: there is none;
 * DL_RESOURCE, with the capabilities that have one. */
const dl_target *dl_target_of_gpu(int major, int minor, dl_error *err);
#endif
