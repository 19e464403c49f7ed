/* Sums, means and extremes of the elements that bear one number. */
#include "frontends/dl/builtin.h"

typedef struct {
    int n;
    const char *over[DL_MAX_RANK]; /* the axes that are added up */
    dl_axis segment;               /* the new axis */
} segments;

static bool fail(dl_call *c, dl_diag_id id, const char *message, const char *help) {
    dl_bad(c->E, c->where, id, "%s %s", c->what->name, message);
    if (help) dl_help(c->E, "%s", help);
    return false;
}

/* Reads the arguments: x, numbers, over, NAME=COUNT. False: reported. */
static bool read_segments(dl_call *c, segments *s) {
    dl_elab *E = c->E;
    const dl_type *numbers = &c->arg[1].t->type;
    if (c->keyed.items.n != 1)
        return fail(c, c->keyed.items.n ? DL_DIAG_too_many_arguments : DL_DIAG_missing_argument,
                    "takes one new axis with the count of segments",
                    dl_format(E->arena, "%s(x, numbers, over=T, S=10)", c->what->name));
    dl_val count = c->keyed.items.at[0];
    s->segment.name = count.name;
    if (!dl_val_count(E, count, 1, dl_format(E->arena, "%s: '%s'", c->what->name, count.name),
                      &s->segment.size))
        return false;
    if (numbers->dtype != DL_I32 && numbers->dtype != DL_I64)
        return fail(c, DL_DIAG_type_mismatch,
                    dl_format(E->arena, "takes the segments' numbers (i32 or i64), not %s",
                              dl_type_text(numbers)),
                    "make them whole: numbers as i32");
    if (!dl_call_axes_of(c, 2, c->arg[1], &s->n, s->over)) return false;
    if (dl_type_axis(&c->arg[0].t->type, count.name) < 0 && dl_type_axis(numbers, count.name) < 0)
        return true;
    return fail(c, DL_DIAG_duplicate_axis,
                dl_format(E->arena, "makes an axis %s, which its operands have: they are %s and %s",
                          count.name, dl_type_text(&c->arg[0].t->type), dl_type_text(numbers)),
                NULL);
}

/* x with all axes of the numbers. */
static dl_val spread(dl_call *c, dl_val x) {
    const dl_type *types[] = {&x.t->type, &c->arg[1].t->type};
    dl_type all;
    dl_shape_fault fault = {0};
    if (!dl_infer_broadcast(types, 2, &all, &fault))
        return dl_bad(c->E, c->where, DL_DIAG_axis_mismatch, "%s: %s", c->what->name,
                      fault.message);
    if (all.rank == x.t->type.rank) return x;
    all.dtype = x.t->type.dtype;
    return dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &x, 0, NULL, &all);
}

/* The results' type: x's axes, with the new one in the place of the first that is combined. */
static dl_type results_type(const segments *s, dl_val x) {
    dl_type t = dl_scalar(x.t->type.dtype);
    for (int i = 0; i < x.t->type.rank; i++) {
        dl_axis axis = x.t->type.axis[i];
        if (!dl_names_have(s->n, s->over, axis.name))
            dl_type_push(&t, axis.name, axis.size);
        else if (dl_type_axis(&t, s->segment.name) < 0)
            dl_type_push(&t, s->segment.name, s->segment.size);
    }
    return t;
}

static dl_val scatter(dl_call *c, dl_op op, const segments *s, dl_val x) {
    x = spread(c, x);
    if (x.kind != DL_V_TENSOR) return x;
    dl_type t = results_type(s, x);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, s->segment.name);
    return dl_tensor_op(c->E, c->where, op, 2, (dl_val[]){x, c->arg[1]}, 1, &axis, &t);
}

dl_val dl_fn_segment_sum(dl_call *c) {
    segments s;
    if (c->arg[0].t->type.dtype == DL_BOOL)
        c->arg[0] = dl_tensor_cast(c->E, c->where, c->arg[0], DL_F32);
    return read_segments(c, &s) ? scatter(c, DL_OP_scatter_add, &s, c->arg[0]) : dl_poison();
}

/* The sum by the count of elements, 0 for a segment without any. */
dl_val dl_fn_segment_mean(dl_call *c) {
    segments s;
    dl_val x = c->arg[0];
    if (!dl_call_float(c, &x) || !read_segments(c, &s)) return dl_poison();
    dl_val one = dl_val_float(1, c->where), sum = scatter(c, DL_OP_scatter_add, &s, x);
    if (sum.kind != DL_V_TENSOR) return sum;
    dl_val count = scatter(c, DL_OP_scatter_add, &s, dl_tensor_of(c->E, one, x.t->type.dtype));
    if (count.kind != DL_V_TENSOR) return count;
    return dl_call_elem(c, DL_OP_div, sum, dl_call_elem(c, DL_OP_max, count, one));
}

/* 0 for a segment without elements. The smallest element is that of the largest negative one. */
dl_val dl_fn_segment_extreme(dl_call *c) {
    segments s;
    dl_val x = c->arg[0], none = {.kind = DL_V_NONE};
    const bool most = c->what->op == DL_OP_scatter_max;
    if (!dl_call_float(c, &x) || !read_segments(c, &s)) return dl_poison();
    if (!most) x = dl_call_elem(c, DL_OP_neg, x, none);
    if (x.kind != DL_V_TENSOR) return x;
    dl_val y = scatter(c, DL_OP_scatter_max, &s, x);
    return most || y.kind != DL_V_TENSOR ? y : dl_call_elem(c, DL_OP_neg, y, none);
}
