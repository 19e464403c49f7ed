/* Functions of one tensor with numbers beside it. */
#include "frontends/dl/builtin.h"

static dl_val with_attrs(dl_call *c, dl_op op, int n, const dl_attr *attrs) {
    return dl_tensor_elem(c->E, c->where, op, 1, c->arg, n, attrs);
}

dl_val dl_fn_with_number(dl_call *c) {
    dl_attr a = dl_attr_float(dl_ops[c->what->op].attrs[0], dl_val_number(c->arg[1]));
    return with_attrs(c, c->what->op, 1, &a);
}

dl_val dl_fn_gelu(dl_call *c) {
    bool tanh = c->given[1] && strcmp(c->arg[1].s, "tanh") == 0;
    if (c->given[1] && !tanh && strcmp(c->arg[1].s, "none") != 0)
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                      "gelu's approximate is \"none\" or \"tanh\", not \"%s\"", c->arg[1].s);
    if (!tanh) return dl_fn_elementwise(c);
    if (c->arg[0].kind != DL_V_TENSOR)
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                      "gelu with approximate=\"tanh\" works on tensors, not on %s",
                      dl_val_describe(c->E, c->arg[0]));
    return with_attrs(c, DL_OP_gelu_tanh, 0, NULL);
}

dl_val dl_fn_softplus(dl_call *c) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_beta, dl_val_number(c->arg[1])),
                    dl_attr_float(DL_ATTR_threshold, dl_val_number(c->arg[2]))};
    if (at[0].f == 0)
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument, "softplus divides by beta, which is 0");
    return with_attrs(c, c->what->op, 2, at);
}

dl_val dl_fn_clamp(dl_call *c) {
    dl_attr at[2];
    int n = 0;
    if (c->given[1]) at[n++] = dl_attr_float(DL_ATTR_low, dl_val_number(c->arg[1]));
    if (c->given[2]) at[n++] = dl_attr_float(DL_ATTR_high, dl_val_number(c->arg[2]));
    if (!n) return dl_bad(c->E, c->where, DL_DIAG_missing_argument, "clamp takes min, max or both");
    dl_dtype d = c->arg[0].t->type.dtype;
    for (int i = 0; i < n; i++) /* a bound that whole numbers do not hold */
        if (!dl_dtype_is_float(d) &&
            (d == DL_BOOL || c->arg[1 + (n == 1 && !c->given[1]) + i].kind != DL_V_INT))
            d = DL_F32;
    c->arg[0] = dl_tensor_cast(c->E, c->where, c->arg[0], d);
    return with_attrs(c, c->what->op, n, at);
}

/* Of truth values the largest says whether any is true, the least whether all are. */
dl_val dl_fn_any(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    dl_val x = c->arg[0];
    if (!dl_call_axes_of(c, 1, x, &n, names)) return dl_poison();
    if (x.t->type.dtype != DL_BOOL) x = dl_tensor_cast(c->E, c->where, x, DL_BOOL);
    if (x.kind != DL_V_TENSOR) return x;
    dl_attr over = {.id = DL_ATTR_over};
    if (n > 0) over = dl_attr_names(DL_ATTR_over, n, names);
    for (int i = 0; n < 0 && i < x.t->type.rank; i++) over.names[over.n++] = x.t->type.axis[i].name;
    return dl_tensor_op(c->E, c->where, c->what->op, 1, &x, 1, &over, NULL);
}

/* x at the numbers along one axis: torch.gather, and with axes of their own an embedding. */
dl_val dl_fn_gather(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 2, c->arg[0], &n, names)) return dl_poison();
    dl_attr axis = dl_attr_name(DL_ATTR_axis, names[0]);
    return dl_tensor_op(c->E, c->where, DL_OP_gather, 2, c->arg, 1, &axis, NULL);
}

/* A row of the weight for each number (torch.nn.Embedding): along a new last axis E. */
dl_val dl_layer_embedding(dl_call *c) {
    const dl_type *x = &c->arg[0].t->type;
    const char *rows = dl_intern("V"), *features = dl_intern("E");
    if (dl_type_axis(x, features) >= 0 || dl_type_axis(x, rows) >= 0)
        return dl_bad(c->E, c->where, DL_DIAG_duplicate_axis,
                      "embedding makes an axis E, by rows V, but its numbers are %s", dl_type_text(x));
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, rows, c->arg[1].i), dl_type_push(&t, features, c->arg[2].i);
    dl_val w = dl_make_param(c, "weight", t, (dl_init){DL_INIT_NORMAL, 0, 1}, (double)c->arg[2].i,
                             (double)c->arg[1].i);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, rows);
    return dl_tensor_op(c->E, c->where, DL_OP_gather, 2, (dl_val[]){w, c->arg[0]}, 1, &axis, NULL);
}
