/* References of ops, written from their definitions in plain loops and in double precision.
 * Nothing here uses the rules of passes/lower*.c or the expressions of ir/ops.def, which are
 * tested against it. */
#ifndef DL_REFERENCE_H
#define DL_REFERENCE_H
#include "ir/interp/interp.h"

/* The seed and step of random ops (ir/base/philox.h); other ops ignore it. */
typedef struct {
    uint64_t seed, step;
    uint32_t number; /* the op's number among those of the step */
} dl_reference_draw;

/* Has the op a reference here? Every op that the pass `lower` expands has one, and so have all
 * scalar ops and reductions. */
bool dl_reference_has(dl_op op);
/* Does this node draw random numbers, so that it has a number in the step? */
bool dl_reference_draws(const dl_node *n);
/* Operands and result are row-major, of dl_type_count elements each; the node is valid, and its op
 * has a reference. */
void dl_reference_node(const dl_node *n, const double *const *in, double *out,
                       const dl_reference_draw *draw);

/* One row: as dl_reference_node. */
typedef void dl_reference_rule(const dl_node *n, const double *const *in, double *out,
                               const dl_reference_draw *draw);
dl_reference_rule dl_ref_elem, dl_ref_dropout, dl_ref_drop_path, dl_ref_rand, dl_ref_clamp,
    dl_ref_softplus, dl_ref_reduce, dl_ref_prod, dl_ref_scan, dl_ref_linear, dl_ref_softmax,
    dl_ref_log_softmax, dl_ref_cross_entropy, dl_ref_argmax, dl_ref_in_top_k, dl_ref_layer_norm,
    dl_ref_batch_norm, dl_ref_group_norm, dl_ref_batch_mean, dl_ref_max_pool, dl_ref_avg_pool,
    dl_ref_adaptive_avg_pool, dl_ref_upsample, dl_ref_attention, dl_ref_rearrange, dl_ref_reshape,
    dl_ref_cat, dl_ref_recurrence;

/* For each window of a max_pool, the index of the first element of the operand that is its result;
 * -1: none. */
void dl_ref_max_places(const dl_node *n, const double *x, double *place);

/* ---- helpers of the rows ---- */

/* The next index of a row-major walk over a type; false after the last. */
static inline bool dl_ref_next(const dl_type *t, int64_t at[DL_MAX_RANK]) {
    for (int i = t->rank - 1; i >= 0; i--) {
        if (++at[i] < t->axis[i].size) return true;
        at[i] = 0;
    }
    return false;
}
/* The row-major offset of an index. */
static inline int64_t dl_ref_place(const dl_type *t, const int64_t at[DL_MAX_RANK]) {
    int64_t place = 0;
    for (int i = 0; i < t->rank; i++) place = place * t->axis[i].size + at[i];
    return place;
}
/* The offset in `t` of the element at an index of `walked`: axes match by name. */
static inline int64_t dl_ref_follow(const dl_type *t, const dl_type *walked,
                                    const int64_t at[DL_MAX_RANK]) {
    int64_t place = 0;
    for (int i = 0; i < t->rank; i++) {
        int j = *t->axis[i].name ? dl_type_axis(walked, t->axis[i].name) : -1;
        place = place * t->axis[i].size + (j < 0 || t->axis[i].size == 1 ? 0 : at[j]);
    }
    return place;
}
/* The same for a walk: the stride in `t` of each axis of `walked`. */
static inline void dl_ref_strides(const dl_type *t, const dl_type *walked,
                                  int64_t stride[DL_MAX_RANK]) {
    int64_t step = 1;
    for (int j = 0; j < walked->rank; j++) stride[j] = 0;
    for (int i = t->rank - 1; i >= 0; step *= t->axis[i--].size) {
        int j = *t->axis[i].name ? dl_type_axis(walked, t->axis[i].name) : -1;
        if (j >= 0 && t->axis[i].size > 1) stride[j] = step;
    }
}
/* Along one axis: element i of line `o` of `outer`, `k` of `inner`. */
static inline int64_t dl_ref_along(const dl_around *a, int64_t o, int64_t i, int64_t k) {
    return (o * a->size + i) * a->inner + k;
}
#endif
