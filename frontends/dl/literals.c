/* Tensors of compile-time values, and changes of a tensor's type alone: lists along named axes,
 * casts, one_hot, linspace, expand, unsqueeze, stop_gradient. */
#include <math.h>

#include "frontends/dl/builtin.h"
#include "ir/base/hash.h"

/* Lists of numbers */

typedef struct {
    DL_ARRAY(double) flat; /* row-major */
    int64_t size[DL_MAX_RANK];
    int rank;
    bool fraction, numbers; /* some item is no whole number; some item is no truth value */
} literal;

/* Appends the list's numbers; `depth` axes enclose it. False: reported. */
static bool flatten(dl_elab *E, const dl_ast *e, dl_val v, int depth, literal *out) {
    if (v.kind == DL_V_POISON) return false;
    if (depth < out->rank) {
        if (v.kind != DL_V_LIST || (out->size[depth] >= 0 && v.list->items.n != out->size[depth])) {
            dl_bad(E, v.origin, DL_DIAG_bad_list, "along axis %d there %s here, but here stands %s",
                   depth + 1,
                   out->size[depth] == 1
                       ? "is 1 element"
                       : dl_format(E->arena, "are %lld elements", (long long)out->size[depth]),
                   dl_val_describe(E, v));
            return false;
        }
        for (int i = 0; i < v.list->items.n; i++)
            if (!flatten(E, e, v.list->items.at[i], depth + 1, out)) return false;
        return true;
    }
    if (!dl_val_is_number(v)) {
        dl_bad(E, e->span, DL_DIAG_bad_list, "a tensor's elements are numbers, and not %s",
               dl_val_describe(E, v));
        if (v.kind == DL_V_TENSOR)
            dl_help(E, "join tensors along an axis that they have: cat(a, b, over=C)");
        return false;
    }
    if (v.kind == DL_V_INT && (v.i > (int64_t)1 << 53 || v.i < -((int64_t)1 << 53))) {
        dl_bad(E, v.origin, DL_DIAG_bad_list,
               "a tensor's whole numbers go up to 2^53, and this is %lld", (long long)v.i);
        return false;
    }
    out->fraction |= v.kind == DL_V_FLOAT, out->numbers |= v.kind != DL_V_BOOL;
    double d = dl_val_number(v);
    dl_push(E->arena, &out->flat, d);
    return dl_spend(E, e->span, 1);
}

static dl_val constant(dl_elab *E, dl_span where, double d, dl_dtype dtype) {
    dl_attr a = dl_attr_float(DL_ATTR_value, d);
    dl_type t = dl_scalar(dtype);
    return dl_tensor_op(E, where, DL_OP_const, 0, NULL, 1, &a, &t);
}

dl_val dl_count_along(dl_elab *E, dl_span where, dl_axis axis, dl_dtype dtype) {
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, axis.name, axis.size);
    dl_attr along = dl_attr_name(DL_ATTR_axis, axis.name);
    return dl_tensor_op(E, where, DL_OP_iota, 0, NULL, 1, &along, &t);
}

/* A variable with those numbers. Equal ones share one, in both of the model's graphs: the name
 * depends on type and numbers, and no layer can have it. */
static dl_val table(dl_elab *E, dl_span where, const literal *l, const dl_type *t) {
    dl_graph *g = E->b.graph;
    size_t bytes = sizeof(double) * (size_t)l->flat.n;
    for (uint64_t salt = 0;; salt++) {
        uint64_t hash = dl_hash(l->flat.at, bytes, dl_hash_str(dl_type_text(t), salt));
        const char *name = dl_internf("list %016llx", (unsigned long long)hash);
        dl_var *v = dl_graph_find_var(g, name);
        if (!v) {
            dl_loc loc = dl_source_loc(E->source, where.begin);
            v = dl_graph_table(g, name, *t, l->flat.n, l->flat.at, loc);
            return dl_val_tensor(&v->value, where);
        }
        if (dl_type_same(&v->value.type, t) && memcmp(v->numbers.at, l->flat.at, bytes) == 0)
            return dl_val_tensor(&v->value, where);
    }
}

dl_val dl_tensor_table(dl_elab *E, dl_span where, dl_type t, const double *numbers) {
    literal l = {.rank = t.rank};
    for (int64_t i = 0; i < dl_type_count(&t); i++) dl_push(E->arena, &l.flat, numbers[i]);
    return dl_spend(E, where, l.flat.n) ? table(E, where, &l, &t) : dl_poison();
}

/* If all are equal, a constant. */
static dl_val build(dl_elab *E, dl_span where, const literal *l, dl_type t) {
    for (int i = 1; i < l->flat.n; i++)
        if (memcmp(&l->flat.at[i], &l->flat.at[0], sizeof(double)) != 0)
            return table(E, where, l, &t);
    dl_val one = constant(E, where, l->flat.n ? l->flat.at[0] : 0, t.dtype);
    return dl_tensor_op(E, where, DL_OP_broadcast, 1, &one, 0, NULL, &t);
}

dl_val dl_tensor_filled(dl_elab *E, const dl_ast *e, dl_val list, dl_type t) {
    literal l = {.rank = t.rank};
    for (int i = 0; i < t.rank; i++) l.size[i] = t.axis[i].size;
    if (!flatten(E, e, list, 0, &l)) return dl_poison();
    for (int i = 0; i < l.rank; i++)
        dl_scope_bind_size(E, t.axis[i].name, t.axis[i].size, e->items.list.at[i]->span);
    t.dtype = l.fraction ? DL_F32 : l.numbers || !l.flat.n ? DL_I32 : DL_BOOL;
    for (int i = 0; t.dtype == DL_I32 && i < l.flat.n; i++)
        if (fabs(l.flat.at[i]) > INT32_MAX) t.dtype = DL_I64;
    for (int i = 0; t.dtype == DL_F32 && i < l.flat.n; i++)
        if (!isfinite((float)l.flat.at[i]))
            return dl_bad(E, e->span, DL_DIAG_bad_list,
                          "a tensor of fractions is f32, which %g is too large for", l.flat.at[i]);
    return build(E, e->span, &l, t);
}

/* Element types */

static const char *const dtypes[] = {
#define X(id, text, bytes) text,
    DL_DTYPES(X)
#undef X
};

bool dl_dtype_named(dl_elab *E, const char *name, dl_span at, dl_dtype *out) {
    if (dl_dtype_parse(name, out)) return true;
    dl_bad(E, at, DL_DIAG_type_mismatch, "'%s' is no element type", name);
    const char *near = dl_suggest(name, dtypes, DL_NDTYPES);
    dl_help(E, "%s%s%s",
            near ? "did you mean '" : "the types are f32, f64, f16, bf16, i32, i64 and bool",
            near ? near : "", near ? "'?" : "");
    return false;
}

dl_val dl_tensor_convert(dl_elab *E, const dl_ast *e, dl_val x) {
    dl_dtype to = DL_F32;
    if (!dl_dtype_named(E, e->name, e->at, &to)) return dl_poison();
    if (x.kind == DL_V_TENSOR) {
        bool pins = to == DL_F32 && x.t->type.dtype == to;
        x = pins ? dl_tensor_pin(E, e->span, x) : dl_tensor_cast(E, e->span, x, to);
        return x.origin = e->span, x.name = NULL, x;
    }
    if (dl_refuse_layer(E, e->at, x)) return dl_poison();
    if (!dl_val_is_number(x)) {
        dl_bad(E, e->at, DL_DIAG_not_a_tensor,
               "`as %s` makes a tensor of a tensor or a number, not of %s", e->name,
               dl_val_describe(E, x));
        if (x.kind == DL_V_LIST)
            dl_help(E, "name its axes first: [0.1, 0.9] as [C] as %s", e->name);
        return dl_poison();
    }
    double d = dl_val_number(x);
    return constant(E, e->span, to == DL_BOOL ? d != 0 : dl_dtype_is_float(to) ? d : trunc(d), to);
}

/* one_hot(t, C=10): 1 where the number along C is the class, 0 elsewhere. */
dl_val dl_fn_one_hot(dl_call *c) {
    dl_elab *E = c->E;
    dl_val t = c->arg[0];
    if (c->keyed.items.n != 1) {
        dl_bad(E, c->where,
               c->keyed.items.n ? DL_DIAG_too_many_arguments : DL_DIAG_missing_argument,
               "one_hot takes one new axis with its size");
        dl_help(E, "one_hot(t, C=10)");
        return dl_poison();
    }
    dl_val size = c->keyed.items.at[0];
    const char *axis = size.name;
    int64_t n;
    if (!dl_val_count(E, size, 1, dl_format(E->arena, "one_hot: '%s'", axis), &n))
        return dl_poison();
    if (t.t->type.dtype != DL_I32 && t.t->type.dtype != DL_I64) {
        dl_bad(E, c->where, DL_DIAG_type_mismatch,
               "one_hot takes class numbers (i32 or i64), not %s", dl_type_text(&t.t->type));
        dl_help(E, "make them whole: one_hot(t as i32, %s=%lld)", axis, (long long)n);
        return dl_poison();
    }
    if (dl_type_axis(&t.t->type, axis) >= 0)
        return dl_bad(E, c->where, DL_DIAG_duplicate_axis, "%s has an axis %s already: it is %s",
                      dl_val_words(E, t, "the tensor"), axis, dl_type_text(&t.t->type));
    dl_val in[] = {t, dl_count_along(E, c->where, (dl_axis){axis, n}, t.t->type.dtype)};
    return dl_tensor_cast(E, c->where, dl_tensor_op(E, c->where, DL_OP_eq, 2, in, 0, NULL, NULL),
                          DL_F32);
}

/* Stops the gradient of its argument: a tensor, or a list of tensors. */
static dl_val stop(dl_call *c, dl_val x) {
    if (x.kind == DL_V_TENSOR)
        return dl_tensor_op(c->E, c->where, DL_OP_stop_gradient, 1, &x, 0, NULL, NULL);
    if (x.kind != DL_V_LIST) {
        if (dl_val_is_number(x) || x.kind == DL_V_POISON) return x;
        if (dl_refuse_layer(c->E, c->where, x)) return dl_poison();
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                      "stop_gradient works on tensors, not on %s", dl_val_describe(c->E, x));
    }
    dl_val list = dl_val_new_list(c->E, c->where);
    for (int i = 0; i < x.list->items.n; i++)
        if (!dl_val_append(c->E, list, stop(c, x.list->items.at[i]), c->where)) return dl_poison();
    return list;
}

dl_val dl_fn_stop_gradient(dl_call *c) { return stop(c, c->arg[0]); }

/* New axes */

/* Adds an axis to t; false: reported. */
static bool add_axis(dl_call *c, dl_type *t, const char *name, dl_val size, dl_span where) {
    int64_t n;
    if (dl_type_axis(t, name) >= 0) {
        dl_bad(c->E, where, DL_DIAG_duplicate_axis, "%s has an axis %s already: it is %s",
               dl_val_words(c->E, c->arg[0], "the tensor"), name, dl_type_text(t));
        return false;
    }
    if (t->rank == DL_MAX_RANK) {
        dl_bad(c->E, where, DL_DIAG_rank_mismatch, "a tensor has at most %d axes", DL_MAX_RANK);
        return false;
    }
    if (!dl_val_count(c->E, size, 0, "the size of an axis", &n)) return false;
    dl_type_push(t, name, n);
    return true;
}

/* Broadcasts x along further axes: those of `over`, whose names are visible with their sizes, and
 * sized ones. */
dl_val dl_fn_expand(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    dl_val x = dl_tensor_of(c->E, c->arg[0], DL_F32);
    if (dl_refuse_layer(c->E, c->where, x) || x.kind == DL_V_POISON) return dl_poison();
    if (x.kind != DL_V_TENSOR)
        return dl_bad(c->E, c->where, DL_DIAG_bad_argument,
                      "expand works on tensors and numbers, not on %s", dl_val_describe(c->E, x));
    dl_type t = x.t->type;
    if (!dl_call_axes(c, 1, &n, names)) return dl_poison();
    for (int i = 0; i < n; i++) {
        const dl_ast *e = c->ast[1]->kind == DL_A_LIST ? c->ast[1]->items.list.at[i]->a : c->ast[1];
        if (!add_axis(c, &t, names[i], dl_eval_name(c->E, e), e->span)) return dl_poison();
    }
    for (int i = 0; i < c->keyed.items.n; i++)
        if (!add_axis(c, &t, c->keyed.items.at[i].name, c->keyed.items.at[i], c->where))
            return dl_poison();
    if (t.rank == x.t->type.rank) {
        dl_bad(c->E, c->where, DL_DIAG_missing_argument, "expand needs new axes");
        dl_help(c->E, "expand(x, over=[H, W]), or with their sizes: expand(x, H=4)");
        return dl_poison();
    }
    if (!dl_check_count(c->E, c->where, &t)) return dl_poison();
    return dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &x, 0, NULL, &t);
}

/* A new axis of size 1 at place `at`; negative places count from the end, as in PyTorch. */
dl_val dl_fn_unsqueeze(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    int64_t at, rank = c->arg[0].t->type.rank;
    if (!dl_call_axes(c, 1, &n, names)) return dl_poison();
    if (!dl_val_count(c->E, c->arg[2], INT64_MIN, "unsqueeze: 'at'", &at)) return dl_poison();
    if (at < -rank - 1 || at > rank)
        return dl_bad(
            c->E, c->arg[2].origin, DL_DIAG_bad_argument,
            "unsqueeze: 'at' is %lld; a tensor of %lld axes has places %lld to %lld for one more",
            (long long)at, (long long)rank, (long long)-rank - 1, (long long)rank);
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, names[0]),
                       dl_attr_int(DL_ATTR_index, at < 0 ? at + rank + 1 : at)};
    return dl_tensor_op(c->E, c->where, DL_OP_unsqueeze, 1, c->arg, 2, attrs, NULL);
}

/* linspace(a, b, n): a list. linspace(a, b, over=H): a tensor along H. */
dl_val dl_fn_linspace(dl_call *c) {
    double a = dl_val_number(c->arg[0]), b = dl_val_number(c->arg[1]);
    if (c->given[2] == c->given[3])
        return dl_bad(
            c->E, c->where, c->given[2] ? DL_DIAG_too_many_arguments : DL_DIAG_missing_argument,
            "linspace takes a count or an axis: linspace(a, b, n) or linspace(a, b, over=H)");
    if (c->given[2]) {
        dl_val list = dl_val_new_list(c->E, c->where);
        int64_t n = c->arg[2].i;
        for (int64_t i = 0; i < n; i++) {
            double v = n == 1 ? a : i == n - 1 ? b : a + (b - a) * (double)i / (double)(n - 1);
            if (!dl_val_append(c->E, list, dl_val_float(v, c->where), c->where)) return dl_poison();
        }
        return list;
    }
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes(c, 3, &n, names)) return dl_poison();
    const dl_ast *e = c->ast[3]->kind == DL_A_LIST ? c->ast[3]->items.list.at[0]->a : c->ast[3];
    dl_val size = dl_eval_name(c->E, e);
    int64_t count;
    if (!dl_val_count(c->E, size, 0, "the size of an axis", &count)) return dl_poison();
    dl_val x = dl_count_along(c->E, c->where, (dl_axis){names[0], count}, DL_F32);
    double step = count > 1 ? (b - a) / (double)(count - 1) : 0;
    x = dl_call_elem(c, DL_OP_mul, x, dl_val_float(step, c->where));
    return dl_call_elem(c, DL_OP_add, x, dl_val_float(a, c->where));
}
