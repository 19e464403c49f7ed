#include "passes/parallel/samples.h"

#include <math.h>

/* The axis of samples after a reshape. One sample's elements are `step` elements apart from the
 * next one's, and end after `end`. Samples may have an axis of their own, be joined with others in
 * one, or be split. Of a split axis, the outermost part is the one that grows with the number of
 * samples. */
static dl_samples find_reshaped(const dl_type *t, dl_samples from, int64_t step, int64_t end) {
    enum { SAME, ALONE, JOINED, SPLIT, NHOWS };
    for (int how = dl_type_count(t) ? SAME : NHOWS; how < NHOWS; how++)
        for (int i = 0; i < t->rank; i++) {
            const char *name = t->axis[i].name;
            const int64_t inner = dl_type_around(t, i).inner, all = inner * t->axis[i].size;
            const bool alone = inner == step && all == end;
            if (how == JOINED && step % inner == 0 && all % end == 0)
                return (dl_samples){name, step / inner, all / end};
            if (how == SAME    ? alone && name == from.axis
                : how == ALONE ? alone
                               : how == SPLIT && all == end)
                return dl_samples_along(name);
        }
    return (dl_samples){0};
}

dl_samples dl_samples_follow(const dl_node *n, int k, dl_samples from) {
    const dl_type *in = &n->in[k]->type, *out = &n->out[0].type;
    const int at = from.axis ? dl_type_axis(in, from.axis) : -1;
    if (at < 0) return (dl_samples){0};
    if (n->op == DL_OP_reshape) {
        const int64_t inner = dl_type_around(in, at).inner;
        return find_reshaped(out, from, inner * from.inner, inner * in->axis[at].size / from.outer);
    }
    if (n->op == DL_OP_rename) from.axis = out->axis[at].name;
    return dl_type_axis(out, from.axis) >= 0 ? from : (dl_samples){0};
}

bool dl_sums_samples(const dl_node *n, int k, const char *axis) {
    if (!axis || dl_type_axis(&n->in[k]->type, axis) < 0) return false;
    if (n->op == DL_OP_scatter_add) return dl_type_axis(&n->out[0].type, axis) < 0;
    const dl_op_class class = dl_ops[n->op].class;
    return (class == DL_CLASS_CONTRACT || (class == DL_CLASS_REDUCE && dl_op_is_linear(n->op))) &&
           dl_node_lists(n, DL_ATTR_over, axis);
}

bool dl_batch_constant_of(const dl_node *n, dl_batch_constant *c) {
    const dl_attr *doubled = n->op == DL_OP_const ? dl_node_attr(n, DL_ATTR_doubled) : NULL;
    if (!doubled) return false;
    const double k = dl_node_float(n, DL_ATTR_value), k2 = doubled->f;
    const bool grows = fabs(k2) >= fabs(k);
    *c = grows ? (dl_batch_constant){k, k2 - k, false}
               : (dl_batch_constant){1 / k, 1 / k2 - 1 / k, true};
    return grows || k2 != 0;
}
