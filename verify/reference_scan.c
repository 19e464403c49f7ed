/* The references of linear scans: cumulative sums, products, and first-order linear recurrences. */
#include "verify/reference.h"

void dl_ref_scan(const dl_node *n, const double *const *in, double *out,
                 const dl_reference_draw *draw) {
    const dl_type *t = &n->out[0].type;
    int axis = dl_type_axis(t, dl_node_name(n, DL_ATTR_axis));
    const dl_attr *reverse = dl_node_attr(n, DL_ATTR_reverse);
    int64_t first = reverse && reverse->i ? t->axis[axis].size - 1 : 0, at[DL_MAX_RANK] = {0};
    (void)draw;
    if (!dl_type_count(t)) return;
    for (int64_t i = 0; i < t->axis[axis].size; i++) { /* the other axes, step after step */
        int64_t step = first ? first - i : i;
        for (int k = 0; k < t->rank; k++) at[k] = 0;
        do {
            if (at[axis]) continue;
            at[axis] = first ? step + 1 : step - 1;
            double h = i ? out[dl_ref_place(t, at)] : 0;
            at[axis] = step;
            double a = in[0][dl_ref_follow(&n->in[0]->type, t, at)];
            double b = n->nin > 1 ? in[1][dl_ref_follow(&n->in[1]->type, t, at)] : a;
            double next = n->op == DL_OP_cumsum ? h + b : a * h + b;
            out[dl_ref_place(t, at)] = !i ? b : n->op == DL_OP_cumprod ? a * h : next;
            at[axis] = 0;
        } while (dl_ref_next(t, at));
    }
}
