/* Loaders: how tiles of a GEMM's operands reach shared memory. A loader is a row of loaders.def and
 * a file, which has the tilings that use it, decides which operands it loads, and writes the struct
 * by which kernels/contract.cu reads them. */
#ifndef DL_CUDA_LOADER_H
#define DL_CUDA_LOADER_H
#include "compiler/cuda/gemm_problem.h"

/* A size of tiles, in warps of wm x wn, with a pipeline of `stages` tiles and so many CTAs per SM;
 * and the relative rate that they then reach, compared with the original estimate for 128x128.
 * Fitted, with the constants of dl_tiling_time (tiling_cost.c), to all variants of 89 kernels
 * (1,903 timings by the tuner) of models/unet.dl, vit.dl and resnet.dl in bf16 on an H200; the
 * choices then take 1% more than the fastest variants. */
typedef struct {
    int bm, bn, wm, wn, stages, per_sm;
    double reach;
} dl_tile_size;

/* A use of a loader: the tilings of one kind. */
typedef struct {
    const char *how; /* after a tile's size in a variant's name: " by TMA and wgmma", or "" */
    bool wgmma;      /* multiplied by wgmma, in warpgroups */
    bool direct;     /* for direct kernels: bm * bn sums on the CTA's threads */
    int n;
    const dl_tile_size *sizes;
    /* Can the tiling, of one of these sizes, be used? Sets the loaders of the operands that it
     * has loaders for, tile_bytes where tiles are not rows of DL_LINE bytes, and `reach` where it
     * is not the size's. */
    bool (*serves)(const dl_gemm_problem *p, dl_tiling *t);
} dl_loading;

typedef struct dl_loader {
    const char *name;
    bool barriers;   /* its copies signal barriers in shared memory */
    bool comparable; /* the cost model compares its tilings with those of other such loaders as
                        well as with its own */
    const struct dl_loader *words; /* NULL, or: the loader whose struct reads its operands element
                                      by element, as a NaN fix-up does. NULL: its own struct */
    /* NULL, or: loads an operand to which the tiling's own loader left none, where it can; then
     * sets the tiling's loader, and tile_bytes. */
    bool (*takes)(const dl_gemm_problem *p, dl_tiling *t, int operand);
    /* Cost of a K element of the operand, in products, in addition to the product. */
    double (*cost)(const dl_gemm_problem *p, const dl_tiling *t, int operand);
    /* NULL, or: sets the operand up, of which a tile has so many rows, before any text. */
    void (*use)(dl_gemm_problem *p, dl_operand *o, int rows, dl_emitted *code);
    void (*put)(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o); /* its struct */
    /* An instance of its struct, named `which`, for the work item `u`. */
    void (*put_reader)(dl_emitter *e, const dl_operand *o, const char *which);
    int n;
    const dl_loading *loadings;
} dl_loader;

#define LOADER(id) extern const dl_loader dl_loader_##id;
#include "compiler/cuda/loaders.def"

/* The operand's name, left or right, of its struct and the struct's instance; and that of the
 * struct that reads it element by element. emit_loaders.c */
const char *dl_operand_side(const dl_operand *o);
const char *dl_operand_words(const dl_operand *o);
/* Instances of the structs that dl_gemm_put wrote. */
void dl_gemm_put_readers(dl_emitter *e, const dl_gemm_problem *p);
/* Rows of an operand's tile. */
static inline int dl_tiling_rows(const dl_tiling *t, int operand) {
    return operand ? t->bn : t->bm;
}
#endif
