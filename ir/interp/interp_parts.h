/* Private to the interpreter; the interface is interp.h. */
#ifndef DL_INTERP_PARTS_H
#define DL_INTERP_PARTS_H
#include "ir/interp/interp.h"
#include "ir/kernel/loop_nest.h"
#include "ir/relation.h"
#include "ir/templates.h"

/* interp_contract.c: a contraction on row-major operands, into row-major results: the sums and,
 * where the pointers are not NULL, the sums of the terms' magnitudes or upper bounds of these, and
 * the sums in float32, one product after the other. */
typedef struct {
    double *sum, *size, *chain;
} dl_interp_sums;
void dl_interp_contract(const dl_relation *r, const double *a, const double *b,
                        const dl_interp_sums *to);

/* interp_winograd.c: by element of the result the error bound of the variant of
 * ir/kernel/winograd.h, for row-major operands; infinite where a number of its window is, or may
 * overflow. */
void dl_interp_winograd(const dl_relation *r, const double *x, const double *w, double *slack);
/* The same of the gradient of a weight. */
void dl_interp_winograd_weight(const dl_relation *r, const double *x, const double *dy,
                               double *slack);

/* interp_range.c: a value in double precision, and the range in which float32 results may lie. */
typedef struct {
    double at, low, high;
} dl_range;
dl_range dl_range_exact(double at);
/* Widens the range by that many roundings to `type`; for a 16-bit type, by roundings to f32 and
 * one to the type. */
dl_range dl_range_widen(dl_dtype type, dl_range r, double roundings);
/* The range of a value after it is stored as `type`. */
dl_range dl_range_store(dl_dtype type, dl_range r);
/* Many of them, as a structure of arrays. */
typedef struct {
    double *at, *low, *high;
} dl_ranges;
static inline dl_range dl_ranges_get(dl_ranges c, int k) {
    return (dl_range){c.at[k], c.low[k], c.high[k]};
}
static inline void dl_ranges_put(dl_ranges c, int k, dl_range r) {
    c.at[k] = r.at, c.low[k] = r.low, c.high[k] = r.high;
}
/* An ELEM instruction on n ranges, with up to three operands. `to` must not be an operand. */
void dl_range_elems(const dl_kinstr *in, const dl_ranges arg[3], dl_ranges to, int n);
/* A sum in any order. */
typedef struct {
    dl_range sum;
    double size;        /* the sum of the terms' magnitudes */
    double least, most; /* the ends of the terms' ranges */
    double chain;       /* the same sum in float32, one term after the other */
    int64_t terms;
} dl_range_sum;
void dl_range_add(dl_range_sum *s, dl_range term);
dl_range dl_range_of_sum(dl_dtype type, const dl_range_sum *s);
/* The error bound of a sum `at` of so many terms, whose magnitudes sum to `size`, in `type`;
 * `chain` as above. */
double dl_sum_slack(dl_dtype type, int64_t terms, double size, double at, double chain);

/* The destination of the ranges' ends, row-major: result k has low[k] and high[k]. */
typedef struct {
    double *const *low, *const *high;
} dl_interp_ends;
/* dl_interp_<op>: an op of class TEMPLATE on its operands' data, followed by its results' data;
 * with `ends` (or NULL) the ends of its results' ranges, too. `round`: values that both the forward
 * and the backward pass compute are rounded as results are.
 */
typedef void dl_interp_call(const dl_node *n, double *const *data, bool round,
                            const dl_interp_ends *ends);
#define DL_TEMPLATE(id, ...) dl_interp_call dl_interp_##id;
#define OP                   DL_TEMPLATE_ROW
#include "ir/ops.def"
#undef OP
#undef DL_TEMPLATE
extern dl_interp_call *const dl_interp_calls[]; /* by op */
/* interp_call.c: such a call on its operands' data, followed by its results'; as dl_interp_kernel.
 * It fills arrays, which are judged afterwards. */
void dl_interp_run_call(const dl_node *call, double *const *data, bool round,
                        const dl_interp_ranges *ranges);

/* interp_body.c: a scan, step by step, on its operands' data, followed by its results', by a run of
 * its body and the functions of such a run (interp.h). False: as dl_interp_run. */
typedef struct {
    dl_interp *in;
    double *(*data)(dl_interp *in, const dl_value *v);
    bool (*run)(dl_interp *in, dl_error *err);
} dl_interp_step;
bool dl_interp_body(const dl_node *n, double *const *data, const dl_interp_step *step,
                    dl_error *err);

/* interp_kernel.c: a fused kernel on its parameters' data, inputs then outputs. With `ranges` (or
 * NULL) the outputs' elements are judged, and have no data. */
void dl_interp_kernel(const dl_kernel *k, double *const *data, bool round,
                      const dl_interp_ranges *ranges);
/* interp_axes.c: a kernel's space in joined axes: neighbouring axes that every instruction uses
 * together are one. */
typedef struct {
    int nspace;
    dl_axis space[DL_MAX_RANK];
    dl_kinstr *instrs; /* the kernel's, in these axes */
    dl_type *shape; /* by instruction: the tensor of a LOAD or STORE, whose axes are joined in the
                       same way */
    dl_step *steps;
} dl_interp_space;
dl_interp_space dl_interp_join_axes(dl_arena *arena, const dl_kernel *k);

/* A number of f32 as TF32: 11 digits, ties away from zero (PTX ISA: cvt.rna.tf32.f32). */
double dl_interp_tf32(double v);

/* The initial value of a reduction. */
double dl_interp_identity(dl_op op);
#endif
