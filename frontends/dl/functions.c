/* Functions: pointwise, reductions, and composites of a few ops each. */
#include <math.h>

#include "frontends/dl/builtin.h"

static dl_val none(void) { return (dl_val){.kind = DL_V_NONE}; }

static dl_val want_number(dl_call *c, dl_val v) {
    if (dl_refuse_layer(c->E, c->where, v)) return dl_poison();
    return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                  "%s works on tensors and numbers, not on %s", c->what->name,
                  dl_val_describe(c->E, v));
}

dl_val dl_fn_elementwise(dl_call *c) {
    dl_val x = c->arg[0];
    if (x.kind == DL_V_TENSOR) return dl_call_elem(c, c->what->op, x, none());
    if (!dl_val_is_number(x)) return want_number(c, x);
    if (x.kind == DL_V_INT && x.i != INT64_MIN &&
        (c->what->op == DL_OP_abs || c->what->op == DL_OP_relu))
        return dl_val_int(x.i < 0 ? (c->what->op == DL_OP_abs ? -x.i : 0) : x.i, c->where);
    if (x.kind == DL_V_INT && c->what->op == DL_OP_floor) return x;
    double r = c->what->fold(dl_val_number(x));
    if (!isfinite(r))
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument, "%s of %g is not a finite number",
                      c->what->name, dl_val_number(x));
    return dl_val_float(r, c->where);
}

dl_val dl_fn_square(dl_call *c) {
    dl_val x = c->arg[0];
    if (x.kind == DL_V_TENSOR) return dl_tensor_square(c->E, c->where, x);
    if (!dl_val_is_number(x)) return want_number(c, x);
    int64_t r;
    if (x.kind == DL_V_INT && !__builtin_mul_overflow(x.i, x.i, &r)) return dl_val_int(r, c->where);
    return dl_val_float(dl_val_number(x) * dl_val_number(x), c->where);
}

static dl_val along_axis(dl_call *c, int i) {
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, i, c->arg[0], &n, names)) return dl_poison();
    const dl_type *t = &c->arg[0].t->type;
    if (c->what->op != DL_OP_argmax)
        dl_doubt_one_class(c->E, c->where, c->what->name, t, dl_type_axis(t, names[0]));
    dl_attr axis = dl_attr_name(DL_ATTR_axis, names[0]);
    return dl_tensor_op(c->E, c->where, c->what->op, 1, c->arg, 1, &axis, NULL);
}

/* softmax, log_softmax */
dl_val dl_fn_softmax(dl_call *c) {
    c->arg[0] = dl_tensor_cast(c->E, c->where, c->arg[0],
                               dl_tensor_number_type(c->what->op, c->arg[0].t->type.dtype));
    return c->arg[0].kind == DL_V_POISON ? c->arg[0] : along_axis(c, 1);
}
dl_val dl_fn_argmax(dl_call *c) { return along_axis(c, 1); }

dl_val dl_fn_where(dl_call *c) {
    if (c->arg[1].kind != DL_V_TENSOR && c->arg[2].kind != DL_V_TENSOR &&
        dl_val_is_number(c->arg[1]))
        c->arg[1] = dl_tensor_of(c->E, c->arg[1], DL_F32);
    return dl_tensor_elem(c->E, c->where, DL_OP_select, 3, c->arg, 0, NULL);
}

/* Whether a list holds only numbers and tensors; otherwise it is reported. *first: its first
 * tensor, or -1. */
static bool check_list(dl_call *c, const dl_val_list *l, int *first) {
    *first = -1;
    for (int i = 0; i < l->items.n; i++) {
        dl_val v = l->items.at[i];
        if (v.kind == DL_V_POISON) return false;
        if (v.kind == DL_V_TENSOR && *first < 0) *first = i;
        if (v.kind == DL_V_TENSOR || dl_val_is_number(v)) continue;
        dl_bad(c->E, c->where, DL_DIAG_bad_argument,
               "%s of a list takes numbers and tensors, not %s", c->what->name,
               dl_val_describe(c->E, v));
        return false;
    }
    return true;
}

/* r with its axes in the order that a single op of all tensors of the list would give them,
 * whichever pair was combined first. */
static dl_val order_as_all(dl_call *c, const dl_val_list *l, dl_val r) {
    const dl_type **types = DL_NEWS(c->E->arena, const dl_type *, l->items.n);
    int n = 0;
    for (int i = 0; i < l->items.n; i++)
        if (l->items.at[i].kind == DL_V_TENSOR) types[n++] = &l->items.at[i].t->type;
    dl_type all;
    if (n < 2 || !dl_infer_broadcast(types, n, &all, &(dl_shape_fault){0})) return r;
    all.dtype = r.t->type.dtype;
    r = dl_tensor_ordered(c->E, c->where, r, &all);
    r.mixed = dl_infer_leader(types, n) < 0;
    return r;
}

/* Folds a list with tensors in it, element by element and in order: the first tensor, and then the
 * other items. */
static dl_val fold_tensors(dl_call *c, const dl_val_list *l, int first) {
    dl_op what = c->what->op, op = what == DL_OP_max || what == DL_OP_min ? what
                                   : what == DL_OP_prod                   ? DL_OP_mul
                                                                          : DL_OP_add;
    dl_val r = l->items.at[first];
    for (int i = 0; i < l->items.n; i++) {
        if (i != first) r = dl_call_elem(c, op, r, l->items.at[i]);
        if (r.kind != DL_V_TENSOR) return r;
    }
    r = order_as_all(c, l, r);
    return what == DL_OP_mean ? dl_call_elem(c, DL_OP_div, r, dl_val_int(l->items.n, c->where)) : r;
}

/* sum, max, min or prod of whole numbers, exactly. */
static dl_val fold_whole(dl_call *c, const dl_val_list *l) {
    dl_op op = c->what->op;
    int64_t r = op == DL_OP_prod ? 1 : op == DL_OP_sum ? 0 : l->items.at[0].i;
    bool over = false;
    for (int i = 0; i < l->items.n; i++) {
        int64_t v = l->items.at[i].i;
        if (op == DL_OP_sum)
            over |= __builtin_add_overflow(r, v, &r);
        else if (op == DL_OP_prod)
            over |= __builtin_mul_overflow(r, v, &r);
        else if ((v > r) == (op == DL_OP_max))
            r = v;
    }
    if (over)
        return dl_bad(c->E, c->where, DL_DIAG_overflow,
                      "the result does not fit into a 64-bit whole number");
    return dl_val_int(r, c->where);
}

/* sum, mean, max, min or prod of a list. */
static dl_val fold_list(dl_call *c, const dl_val_list *l) {
    int first;
    if (!dl_spend(c->E, c->where, l->items.n / 8) || !check_list(c, l, &first)) return dl_poison();
    if (first >= 0) return fold_tensors(c, l, first);
    dl_op op = c->what->op;
    if (l->items.n == 0 && op != DL_OP_sum && op != DL_OP_prod)
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument, "%s of an empty list", c->what->name);
    double r = op == DL_OP_prod ? 1 : 0;
    bool whole = op != DL_OP_mean;
    for (int i = 0; i < l->items.n; i++) {
        double d = dl_val_number(l->items.at[i]);
        whole &= l->items.at[i].kind == DL_V_INT;
        r = i == 0             ? d
            : op == DL_OP_max  ? fmax(r, d)
            : op == DL_OP_min  ? fmin(r, d)
            : op == DL_OP_prod ? r * d
                               : r + d;
    }
    if (whole) return fold_whole(c, l);
    return dl_val_float(op == DL_OP_mean ? r / l->items.n : r, c->where);
}

dl_val dl_fn_reduce(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    if (c->arg[0].kind == DL_V_LIST && !c->given[1]) return fold_list(c, c->arg[0].list);
    if (c->arg[0].kind != DL_V_TENSOR) return want_number(c, c->arg[0]);
    if (!dl_call_axes_of(c, 1, c->arg[0], &n, names)) return dl_poison();
    return dl_tensor_reduce(c->E, c->where, c->what->op, c->arg[0], n, names);
}

dl_val dl_fn_extreme(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    bool max = c->what->op == DL_OP_max;
    dl_val a = c->arg[0], b = c->arg[1];
    if (b.kind == DL_V_NONE) {
        if (a.kind == DL_V_LIST && !c->given[2]) return fold_list(c, a.list);
        if (a.kind != DL_V_TENSOR) return want_number(c, a);
        if (!dl_call_axes_of(c, 2, a, &n, names)) return dl_poison();
        return dl_tensor_reduce(c->E, c->where, max ? DL_OP_reduce_max : DL_OP_reduce_min, a, n,
                                names);
    }
    if (c->given[2])
        return dl_bad(c->E, c->where, DL_DIAG_too_many_arguments,
                      "%s takes two tensors, or one and `over`", c->what->name);
    if (a.kind == DL_V_TENSOR || b.kind == DL_V_TENSOR) return dl_call_elem(c, c->what->op, a, b);
    if (!dl_val_is_number(a) || !dl_val_is_number(b))
        return want_number(c, dl_val_is_number(a) ? b : a);
    dl_val r = (dl_val_number(a) > dl_val_number(b)) == max ? a : b;
    return r.origin = c->where, r.name = NULL, r;
}

/* sum or mean of squares. */
static dl_val squares(dl_call *c, dl_op op, dl_val x, int n, const char *const *over) {
    if (!dl_call_float(c, &x)) return dl_poison();
    return dl_tensor_reduce(c->E, c->where, op, dl_tensor_square(c->E, c->where, x), n, over);
}

/* The square root, whose gradient at 0 is 0, as in PyTorch's norms and deviations: where the
 * operand is 0, the root of 1 is computed and not used. */
static dl_val root(dl_call *c, dl_val x) {
    dl_val zero = dl_val_float(0, c->where), one = dl_val_float(1, c->where);
    dl_val none_left = dl_call_elem(c, DL_OP_eq, x, zero);
    dl_val safe =
        dl_tensor_elem(c->E, c->where, DL_OP_select, 3, (dl_val[]){none_left, one, x}, 0, NULL);
    dl_val y = dl_call_elem(c, DL_OP_sqrt, safe, none());
    return dl_tensor_elem(c->E, c->where, DL_OP_select, 3, (dl_val[]){none_left, zero, y}, 0, NULL);
}

dl_val dl_call_norm(dl_call *c, dl_val x, int n, const char *const *over) {
    return root(c, squares(c, DL_OP_sum, x, n, over));
}

dl_val dl_fn_norm(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 1, c->arg[0], &n, names)) return dl_poison();
    return dl_call_norm(c, c->arg[0], n, names);
}

/* The variance divides by the count (PyTorch's unbiased=False). x is pinned to f32: equal values
 * would deviate from a mean that is rounded to 16 bits. */
static dl_val deviations(dl_call *c, int *n, const char *names[DL_MAX_RANK]) {
    dl_val x = c->arg[0];
    if (!dl_call_axes_of(c, 1, x, n, names) || !dl_call_float(c, &x)) return dl_poison();
    x = dl_tensor_pin(c->E, c->where, x);
    dl_val mean = dl_tensor_reduce(c->E, c->where, DL_OP_mean, x, *n, names);
    return dl_call_elem(c, DL_OP_sub, x, mean);
}
dl_val dl_fn_var(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    dl_val x = deviations(c, &n, names);
    return x.kind == DL_V_TENSOR ? squares(c, DL_OP_mean, x, n, names) : x;
}
/* The root of the mean of squares, computed in f64, as in PyTorch's std: in f32, values below 1e-23
 * would give 0, and values beyond 1.8e19 infinity. A norm is computed in f32, as in PyTorch: it
 * serves as a loss of large fields, whose gradient would otherwise be computed in f64. */
static dl_val root_of_mean_squares(dl_call *c, dl_val x, int n, const char *const *over) {
    const dl_dtype type = x.t->type.dtype;
    x = dl_tensor_cast(c->E, c->where, dl_tensor_pin(c->E, c->where, x), DL_F64);
    dl_val all =
        dl_tensor_reduce(c->E, c->where, DL_OP_mean, dl_call_elem(c, DL_OP_mul, x, x), n, over);
    return all.kind == DL_V_TENSOR ? dl_tensor_cast(c->E, c->where, root(c, all), type) : all;
}

dl_val dl_fn_std(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    dl_val x = deviations(c, &n, names);
    return x.kind == DL_V_TENSOR ? root_of_mean_squares(c, x, n, names) : x;
}

static dl_val add_squares(dl_call *c, dl_val total, dl_val x) {
    if (x.kind == DL_V_LIST) {
        for (int i = 0; i < x.list->items.n; i++)
            total = add_squares(c, total, x.list->items.at[i]);
        return total;
    }
    if (x.kind != DL_V_TENSOR) return x.kind == DL_V_POISON ? x : want_number(c, x);
    dl_val s =
        dl_tensor_reduce(c->E, c->where, DL_OP_sum, dl_tensor_square(c->E, c->where, x), -1, NULL);
    return total.kind == DL_V_NONE ? s : dl_call_elem(c, DL_OP_add, total, s);
}

dl_val dl_fn_sum_squares(dl_call *c) {
    dl_val total = none();
    for (int i = 0; i < c->rest.items.n; i++) total = add_squares(c, total, c->rest.items.at[i]);
    return total.kind == DL_V_NONE ? dl_val_float(0, c->where) : total;
}

/* x with its axes in the first tensor's order, which is joined with it along `axis`; x itself where
 * it has other axes. */
static dl_val in_order_of(dl_call *c, dl_val x, const dl_type *first, const char *axis) {
    dl_type like = *first;
    const dl_type *t = &x.t->type;
    for (int i = 0; i < like.rank; i++)
        if (!*like.axis[i].name || dl_type_axis(t, like.axis[i].name) < 0) return x;
    int joined = dl_type_axis(&like, axis);
    like.axis[joined].size = t->axis[dl_type_axis(t, axis)].size;
    return dl_tensor_ordered(c->E, c->where, x, &like);
}

dl_val dl_fn_cat(dl_call *c) {
    int n, count = 0;
    const char *names[DL_MAX_RANK];
    DL_ARRAY(dl_val) in = {0};
    for (int i = 0; i < c->rest.items.n; i++) {
        dl_val v = c->rest.items.at[i];
        for (int k = 0; k < (v.kind == DL_V_LIST ? v.list->items.n : 1); k++)
            dl_push(c->E->arena, &in, v.kind == DL_V_LIST ? v.list->items.at[k] : v);
    }
    if (!dl_spend(c->E, c->where, in.n)) return dl_poison();
    for (; count < in.n; count++) {
        if (in.at[count].kind == DL_V_POISON) return dl_poison();
        if (dl_refuse_layer(c->E, c->where, in.at[count])) return dl_poison();
        if (in.at[count].kind != DL_V_TENSOR)
            return dl_bad(c->E, c->where, DL_DIAG_not_a_tensor, "cat joins tensors, not %s",
                          dl_val_describe(c->E, in.at[count]));
    }
    if (in.n == 0)
        return dl_bad(c->E, c->where, DL_DIAG_missing_argument,
                      "cat needs tensors: cat(a, b, over=C)");
    for (int i = 0; i < in.n; i++)
        if (!dl_call_axes_of(c, 1, in.at[i], &n, names)) return dl_poison();
    if (!dl_axes_agree(c->E, c->where,
                       dl_format(c->E->arena,
                                 "cat over %s joins tensors that agree in all other axes",
                                 names[0]),
                       in.n, in.at, names[0]))
        return dl_poison();
    for (int i = 1; i < in.n; i++) in.at[i] = in_order_of(c, in.at[i], &in.at[0].t->type, names[0]);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, names[0]);
    return dl_tensor_op(c->E, c->where, DL_OP_cat, in.n, in.at, 1, &axis, NULL);
}

dl_val dl_fn_in_top_k(dl_call *c) {
    dl_attr k = dl_attr_int(DL_ATTR_k, c->arg[2].i);
    return dl_tensor_op(c->E, c->where, DL_OP_in_top_k, 2, c->arg, 1, &k, NULL);
}

dl_val dl_fn_range(dl_call *c) {
    int64_t v[3] = {0, 0, 1};
    int n = c->rest.items.n;
    if (n < 1 || n > 3) {
        dl_bad(c->E, c->where, n ? DL_DIAG_too_many_arguments : DL_DIAG_missing_argument,
               "range takes one to three numbers");
        dl_help(c->E, "range(n), range(first, end) or range(first, end, step)");
        return dl_poison();
    }
    for (int i = 0; i < n; i++) {
        if (!dl_val_count(c->E, c->rest.items.at[i], INT64_MIN, "a bound of range",
                          &v[n == 1 ? 1 : i]))
            return dl_poison();
    }
    if (v[2] == 0) return dl_bad(c->E, c->where, DL_DIAG_bad_argument, "range: the step is not 0");
    dl_val list = dl_val_new_list(c->E, c->where);
    for (int64_t i = v[0]; v[2] > 0 ? i < v[1] : i > v[1];) {
        if (!dl_val_append(c->E, list, dl_val_int(i, c->where), c->where)) return dl_poison();
        if (__builtin_add_overflow(i, v[2], &i)) break;
    }
    return list;
}

dl_val dl_fn_len(dl_call *c) {
    if (c->arg[0].kind == DL_V_LIST) return dl_val_int(c->arg[0].list->items.n, c->where);
    return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                  "len counts the elements of a list, not of %s", dl_val_describe(c->E, c->arg[0]));
}

dl_val dl_fn_int(dl_call *c) {
    if (c->arg[0].kind == DL_V_INT) return c->arg[0];
    double d = trunc(dl_val_number(c->arg[0]));
    if (!(fabs(d) < 9.2e18))
        return dl_bad(c->E, c->where, DL_DIAG_overflow, "%g is too large for a whole number", d);
    return dl_val_int((int64_t)d, c->where);
}

/* fail(...): the model reports an argument that it cannot be built with, by a text and values. */
dl_val dl_fn_fail(dl_call *c) {
    if (c->rest.items.n < 1 || c->rest.items.at[0].kind != DL_V_STR)
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                      "fail says what is wrong: fail(\"...\", values...)");
    dl_buf b = {0};
    dl_puts(&b, c->rest.items.at[0].s);
    for (int i = 1; i < c->rest.items.n; i++)
        dl_putf(&b, "%s %s", i > 1 ? "," : "", dl_val_describe(c->E, c->rest.items.at[i]));
    dl_val poison = dl_bad(c->E, c->where, DL_DIAG_refused, "%.800s", b.at);
    dl_buf_free(&b);
    return poison;
}
