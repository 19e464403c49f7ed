/* The interpreter's own header; the interface is interp.h. */
#ifndef DL_INTERP_PARTS_H
#define DL_INTERP_PARTS_H
#include "ir/interp/interp.h"
#include "ir/kernel/sweep.h"
#include "ir/relation.h"

/* A contraction on row-major operands, into row-major results: the sums; if they are not NULL, the
 * sums of the terms' magnitudes or something above them, and the sums in float32, one product after
 * the other. interp_contract.c */
typedef struct {
    double *sum, *size, *chain;
} dl_interp_sums;
void dl_interp_contract(const dl_relation *r, const double *a, const double *b,
                        const dl_interp_sums *to);

/* A value in double precision and the ends of what float32 may make of it. interp_range.c */
typedef struct {
    double at, low, high;
} dl_range;
dl_range dl_range_exact(double at);
/* Both ends moved outwards by that many roundings to `type`; to f32 and then rounded, of a type of
 * 16 bits. */
dl_range dl_range_widen(dl_dtype type, dl_range r, double roundings);
/* The range of a value after it is stored as `type`. */
dl_range dl_range_store(dl_dtype type, dl_range r);
/* Many of them, in columns. */
typedef struct {
    double *at, *low, *high;
} dl_ranges;
static inline dl_range dl_ranges_get(dl_ranges c, int k) {
    return (dl_range){c.at[k], c.low[k], c.high[k]};
}
static inline void dl_ranges_put(dl_ranges c, int k, dl_range r) {
    c.at[k] = r.at, c.low[k] = r.low, c.high[k] = r.high;
}
/* An ELEM instruction on n ranges; three operands, whichever it has. `to` is none of them. */
void dl_range_elems(const dl_kinstr *in, const dl_ranges arg[3], dl_ranges to, int n);
/* A sum in whatever order. */
typedef struct {
    dl_range sum;
    double size;        /* of what was summed: magnitudes */
    double least, most; /* ends of the terms' ranges */
    double chain;       /* the same sum in float32, one term after the other */
    int64_t terms;
} dl_range_sum;
void dl_range_add(dl_range_sum *s, dl_range term);
dl_range dl_range_of_sum(dl_dtype type, const dl_range_sum *s);
/* How far a sum `at` of so many terms, whose magnitudes sum to `size`, may be off in `type`;
 * `chain` as above. */
double dl_sum_slack(dl_dtype type, int64_t terms, double size, double at, double chain);

/* Where the ends of ranges go: row-major, of result k low[k] and high[k]. */
typedef struct {
    double *const *low, *const *high;
} dl_interp_ends;
/* An op of class TEMPLATE on its operands' data, followed by its results' data; with `ends` (or
 * NULL) the ends of its results' ranges too. `round`: values that both the forward and the backward
 * pass compute are rounded as results are. interp_attention.c */
typedef void dl_interp_call(const dl_node *n, double *const *data, bool round,
                            const dl_interp_ends *ends);
dl_interp_call dl_interp_attention, dl_interp_attention_grad;
extern dl_interp_call *const dl_interp_calls[]; /* by op */

/* A fused kernel on its parameters' data, inputs then outputs. With `ranges` (or NULL) the outputs'
 * elements are judged, and have no data. interp_kernel.c */
void dl_interp_kernel(const dl_kernel *k, double *const *data, bool round,
                      const dl_interp_ranges *ranges);
/* A kernel's space by joined axes: those next to each other that every instruction follows together
 * are one. interp_axes.c */
typedef struct {
    int nspace;
    dl_axis space[DL_MAX_RANK];
    dl_kinstr *instrs; /* as the kernel's, by these axes */
    dl_type *shape;    /* by instruction: of a LOAD or STORE its tensor, whose axes are joined
                          likewise */
    dl_step *steps;
} dl_interp_space;
dl_interp_space dl_interp_join_axes(dl_arena *arena, const dl_kernel *k);

/* A number of f32 as TF32: 11 digits, ties away from zero (PTX ISA: cvt.rna.tf32.f32). */
double dl_interp_tf32(double v);

/* The initial value of a reduction. */
double dl_interp_identity(dl_op op);
#endif
