/* Functions of one tensor with numbers as further arguments. */
#include <math.h>

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

/* Bounds are attributes, doubles; for i64 they are operands, which represent all whole numbers. */
static dl_val clamp_whole(dl_call *c, dl_val x) {
    if (c->given[1]) x = dl_call_elem(c, DL_OP_max, x, c->arg[1]);
    return c->given[2] ? dl_call_elem(c, DL_OP_min, x, c->arg[2]) : x;
}

dl_val dl_fn_clamp(dl_call *c) {
    dl_attr at[2];
    int n = 0;
    if (c->given[1]) at[n++] = dl_attr_float(DL_ATTR_low, dl_val_number(c->arg[1]));
    if (c->given[2]) at[n++] = dl_attr_float(DL_ATTR_high, dl_val_number(c->arg[2]));
    if (!n) return dl_bad(c->E, c->where, DL_DIAG_missing_argument, "clamp takes min, max or both");
    dl_dtype d = c->arg[0].t->type.dtype;
    for (int i = 1; i <= 2; i++) { /* a bound that is no whole number, or exceeds i32 */
        if (!c->given[i] || dl_dtype_is_float(d)) continue;
        if (d == DL_BOOL || c->arg[i].kind != DL_V_INT)
            d = DL_F32;
        else if (c->arg[i].i != (int32_t)c->arg[i].i)
            d = DL_I64;
    }
    c->arg[0] = dl_tensor_cast(c->E, c->where, c->arg[0], d);
    return d == DL_I64 ? clamp_whole(c, c->arg[0]) : with_attrs(c, c->what->op, n, at);
}

/* The maximum of truth values is whether any is true, the minimum whether all are. */
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

dl_val dl_fn_atan2(dl_call *c) {
    dl_val y = c->arg[0], x = c->arg[1];
    if (dl_val_is_number(y) && dl_val_is_number(x))
        return dl_val_float(atan2(dl_val_number(y), dl_val_number(x)), c->where);
    return dl_call_elem(c, DL_OP_atan2, y, x);
}

/* x - trunc(x / y) y, which is of the sign of x. In double precision quotient and product are exact
 * for f32 and 16 bits, up to quotients of 2^29. An infinite y leaves x. */
dl_val dl_fn_fmod(dl_call *c) {
    dl_elab *E = c->E;
    dl_dtype d = c->arg[0].t->type.dtype;
    if (c->arg[1].kind == DL_V_TENSOR && c->arg[1].t->type.dtype == DL_F64) d = DL_F64;
    if (!dl_dtype_is_float(d)) d = DL_F32;
    dl_val x = dl_tensor_cast(E, c->where, c->arg[0], DL_F64), y = c->arg[1];
    if (dl_val_is_number(y) && d != DL_F64) /* as a number of x's type */
        y = dl_val_float((double)(float)dl_val_number(y), c->where);
    y = dl_tensor_cast(E, c->where, dl_tensor_of(E, y, DL_F64), DL_F64);
    if (x.kind != DL_V_TENSOR || y.kind != DL_V_TENSOR) return dl_poison();
    dl_val none = {.kind = DL_V_NONE}, zero = dl_val_float(0, c->where);
    dl_val q = dl_call_elem(c, DL_OP_div, x, y);
    q = dl_call_elem(c, DL_OP_mul, dl_call_elem(c, DL_OP_sign, q, none),
                     dl_call_elem(c, DL_OP_floor, dl_call_elem(c, DL_OP_abs, q, none), none));
    dl_val rest = dl_call_elem(c, DL_OP_sub, x, dl_call_elem(c, DL_OP_mul, q, y));
    dl_val in[] = {dl_call_elem(c, DL_OP_eq, q, zero), x, rest};
    if (in[0].kind != DL_V_TENSOR) return in[0];
    return dl_tensor_cast(E, c->where, dl_tensor_elem(E, c->where, DL_OP_select, 3, in, 0, NULL),
                          d);
}

/* The places of x along one axis in order: torch.argsort, stable. */
static dl_val find_order(dl_call *c, dl_val x, const char *axis, bool descending) {
    if (x.t->type.dtype == DL_BOOL) x = dl_tensor_cast(c->E, c->where, x, DL_I32);
    if (x.kind != DL_V_TENSOR) return x;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_int(DL_ATTR_descending, descending)};
    return dl_tensor_op(c->E, c->where, DL_OP_argsort, 1, &x, 2, at, NULL);
}

dl_val dl_fn_argsort(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 1, c->arg[0], &n, names)) return dl_poison();
    return find_order(c, c->arg[0], names[0], c->arg[2].b);
}

/* The indices of the k largest elements along an axis, the largest first: torch.topk's indices.
 * gather returns their values. */
dl_val dl_fn_top_k(dl_call *c) {
    dl_elab *E = c->E;
    dl_val x = c->arg[0];
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 2, x, &n, names)) return dl_poison();
    dl_axis axis = x.t->type.axis[dl_type_axis(&x.t->type, names[0])];
    const int64_t k = c->arg[1].i;
    if (k < 1 || k > axis.size)
        return dl_bad(E, c->arg[1].origin, DL_DIAG_bad_argument,
                      "top_k takes 1 to %lld of %s=%lld, not %lld", (long long)axis.size, axis.name,
                      (long long)axis.size, (long long)k);
    dl_val places = find_order(c, x, axis.name, true);
    if (places.kind != DL_V_TENSOR || k == axis.size) return places;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis.name), dl_attr_int(DL_ATTR_start, 0),
                    dl_attr_int(DL_ATTR_stop, k)};
    return dl_tensor_op(E, c->where, DL_OP_slice, 1, &places, 3, at, NULL);
}

/* x at the given indices along one axis: torch.gather, and with axes of their own an embedding. */
dl_val dl_fn_gather(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 2, c->arg[0], &n, names)) return dl_poison();
    dl_attr axis = dl_attr_name(DL_ATTR_axis, names[0]);
    return dl_tensor_op(c->E, c->where, DL_OP_gather, 2, c->arg, 1, &axis, NULL);
}

/* A row of the weight for each index (torch.nn.Embedding), along a new last axis E. */
dl_val dl_layer_embedding(dl_call *c) {
    const dl_type *x = &c->arg[0].t->type;
    const char *rows = dl_intern("V"), *features = dl_intern("E");
    if (x->dtype != DL_I32 && x->dtype != DL_I64) {
        dl_bad(c->E, c->where, DL_DIAG_type_mismatch,
               "embedding takes whole numbers (i32 or i64), not %s", dl_type_text(x));
        dl_help(c->E,
                "declare them as such (input tokens: i32[N, T=10]), or make them whole: x as i32");
        return dl_poison();
    }
    if (dl_type_axis(x, features) >= 0 || dl_type_axis(x, rows) >= 0)
        return dl_bad(c->E, c->where, DL_DIAG_duplicate_axis,
                      "embedding makes an axis E, by rows V, but its numbers are %s",
                      dl_type_text(x));
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, rows, c->arg[1].i), dl_type_push(&t, features, c->arg[2].i);
    dl_val w = dl_make_param(c, "weight", t, (dl_init){DL_INIT_NORMAL, 0, 1}, (double)c->arg[2].i,
                             (double)c->arg[1].i);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, rows);
    return dl_tensor_op(c->E, c->where, DL_OP_gather, 2, (dl_val[]){w, c->arg[0]}, 1, &axis, NULL);
}
