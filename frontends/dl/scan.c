/* Cumulative sums and products, and linear scans (ir/scan.h), along one axis. */
#include "frontends/dl/builtin.h"

enum { P_X, P_OVER, P_REVERSE, P_EXCLUSIVE }; /* of cumsum and cumprod */
enum { P_A, P_B, P_STEPS, P_BACKWARDS };      /* of linear_scan */

/* x one step later, with 0 or 1 as the first step: a scan of it excludes each step's own element.
 */
static dl_val shifted(dl_call *c, dl_val x, const char *axis, bool reverse) {
    dl_type one = x.t->type;
    int at = dl_type_axis(&one, axis);
    int64_t size = one.axis[at].size;
    if (!size) return x;
    one.axis[at].size = 1;
    double start = c->what->op == DL_OP_cumprod;
    dl_val first = dl_tensor_of(c->E, dl_val_float(start, c->where), one.dtype);
    first = dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &first, 0, NULL, &one);
    dl_val rest = dl_tensor_slice(c->E, c->where, x, axis, reverse, size - !reverse);
    dl_val in[] = {reverse ? rest : first, reverse ? first : rest};
    dl_attr to = dl_attr_name(DL_ATTR_axis, axis);
    return dl_tensor_op(c->E, c->where, DL_OP_cat, 2, in, 1, &to, NULL);
}

dl_val dl_fn_cumulative(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    bool reverse = c->arg[P_REVERSE].b;
    dl_val x = dl_tensor_cast(c->E, c->where, c->arg[P_X],
                              dl_tensor_number_type(c->what->op, c->arg[P_X].t->type.dtype));
    if (x.kind == DL_V_POISON || !dl_call_axes_of(c, P_OVER, x, &n, names)) return dl_poison();
    if (c->arg[P_EXCLUSIVE].b) x = shifted(c, x, names[0], reverse);
    if (x.kind == DL_V_POISON) return x;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, names[0]), dl_attr_int(DL_ATTR_reverse, 1)};
    return dl_tensor_op(c->E, c->where, c->what->op, 1, &x, reverse ? 2 : 1, at, NULL);
}

/* One of a and b has the axis. */
dl_val dl_fn_linear_scan(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    if (c->arg[P_A].kind != DL_V_TENSOR && c->arg[P_B].kind != DL_V_TENSOR)
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                      "linear_scan wants a tensor as a or as b");
    dl_val with = c->arg[P_B];
    if (!dl_call_axes(c, P_STEPS, &n, names)) return dl_poison();
    if (with.kind != DL_V_TENSOR || dl_type_axis(&with.t->type, names[0]) < 0) {
        if (c->arg[P_A].kind == DL_V_TENSOR) with = c->arg[P_A];
        if (!dl_call_axes_of(c, P_STEPS, with, &n, names)) return dl_poison();
    }
    bool reverse = c->arg[P_BACKWARDS].b;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, names[0]), dl_attr_int(DL_ATTR_reverse, 1)};
    return dl_tensor_elem(c->E, c->where, DL_OP_linear_scan, 2, c->arg, reverse ? 2 : 1, at);
}
