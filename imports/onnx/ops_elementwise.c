/* Element-by-element ops. */
#include "imports/onnx/parts.h"

static dl_ox_value *unary(dl_ox_op *o, const char *op, dl_ox_value *x, dl_ox_value *to) {
    dl_ox_shape s = dl_ox_shape_of(x);
    dl_ox_arg_tensor(o, "self", x);
    return dl_ox_make(o, op, to, &s, x);
}

bool dl_ox_unary(dl_ox_op *o) { return unary(o, o->detail, o->n->in[0], o->n->out[0]); }

/* detail: the op, ONNX's attribute, its default, PyTorch's argument */
bool dl_ox_unary_number(dl_ox_op *o) {
    char *copy = dl_strdup(o->r->arena, o->detail);
    const char *op = strsep(&copy, " "), *theirs = strsep(&copy, " ");
    double standard = 0;
    dl_parse_real(strsep(&copy, " "), &standard);
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    dl_ox_arg_tensor(o, "self", o->n->in[0]);
    dl_ox_arg_real(o, copy, dl_ox_real(o->n, theirs, standard));
    return dl_ox_make(o, op, o->n->out[0], &s, o->n->in[0]);
}

bool dl_ox_truth(dl_ox_op *o) {
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    dl_ox_arg_tensor(o, "self", o->n->in[0]);
    return dl_ox_make_as(o, o->detail, o->n->out[0], &s, DL_FOREIGN_BOOL, DLR_ST_BOOL);
}

bool dl_ox_gelu(dl_ox_op *o) {
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    dl_ox_arg_tensor(o, "self", o->n->in[0]);
    dl_ox_arg_text(o, "approximate", dl_ox_word(o->n, "approximate", "none"));
    return dl_ox_make(o, "aten.gelu.default", o->n->out[0], &s, o->n->in[0]);
}

bool dl_ox_swish(dl_ox_op *o) {
    return dl_ox_real(o->n, "alpha", 1) == 1 &&
           unary(o, "aten.silu.default", o->n->in[0], o->n->out[0]);
}

bool dl_ox_selu(dl_ox_op *o) {
    double alpha = dl_ox_real(o->n, "alpha", 1.6732632),
           gamma = dl_ox_real(o->n, "gamma", 1.0507010);
    return alpha > 1.67326 && alpha < 1.67327 && gamma > 1.05070 && gamma < 1.05071 &&
           unary(o, "aten.selu.default", o->n->in[0], o->n->out[0]);
}

/* x / (1 + |x|) */
bool dl_ox_softsign(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *size = unary(o, "aten.abs.default", x, NULL);
    dl_ox_shape s = dl_ox_shape_of(x);
    if (!size) return false;
    dl_ox_arg_tensor(o, "self", size), dl_ox_arg_int(o, "other", 1);
    dl_ox_value *sum = dl_ox_make(o, "aten.add.Tensor", NULL, &s, x);
    if (!sum) return false;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_tensor(o, "other", sum);
    return dl_ox_make(o, "aten.div.Tensor", o->n->out[0], &s, x);
}

/* clamp(alpha x + beta, 0, 1) */
bool dl_ox_hard_sigmoid(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    double alpha = dl_ox_real(o->n, "alpha", 0.2), beta = dl_ox_real(o->n, "beta", 0.5);
    if (alpha > 0.166666 && alpha < 0.166667 && beta == 0.5)
        return unary(o, "aten.hardsigmoid.default", x, o->n->out[0]);
    dl_ox_shape s = dl_ox_shape_of(x);
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_real(o, "other", alpha);
    dl_ox_value *y = dl_ox_make(o, "aten.mul.Tensor", NULL, &s, x);
    if (!y) return false;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_real(o, "other", beta);
    if (!(y = dl_ox_make(o, "aten.add.Tensor", NULL, &s, x))) return false;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_real(o, "min", 0), dl_ox_arg_real(o, "max", 1);
    return dl_ox_make(o, "aten.clamp.default", o->n->out[0], &s, x);
}

bool dl_ox_identity(dl_ox_op *o) { return dl_ox_alias(o, o->n->in[0]); }

bool dl_ox_cast(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *like = *o->detail ? dl_ox_in(o, 1) : NULL;
    dl_foreign_tensor t = {0};
    if (like)
        t.class = like->t->class, t.dtype = like->t->dtype;
    else if (*o->detail || !dl_ox_set_type(&t, (uint64_t)dl_ox_int(o->n, "to", 0)))
        return false;
    if (t.class == x->t->class && t.dtype == x->t->dtype) return dl_ox_alias(o, x);
    dl_ox_shape s = dl_ox_shape_of(x);
    dl_ox_arg_tensor(o, "self", x);
    return dl_ox_make_as(o, "aten.to.dtype", o->n->out[0], &s, t.class, t.dtype);
}

bool dl_ox_clip(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *low = dl_ox_in(o, 1), *high = dl_ox_in(o, 2);
    dl_ox_shape s = dl_ox_shape_of(x);
    double min, max;
    if ((low && !dl_ox_set_number(o->r, low, &min)) ||
        (high && !dl_ox_set_number(o->r, high, &max)))
        return false;
    if (!low && !high) return dl_ox_alias(o, x);
    if (low && high && min == 0 && max == 6) return unary(o, "aten.relu6.default", x, o->n->out[0]);
    dl_ox_arg_tensor(o, "self", x);
    if (low) dl_ox_arg_real(o, "min", min);
    if (high) dl_ox_arg_real(o, "max", max);
    return dl_ox_make(o, "aten.clamp.default", o->n->out[0], &s, x);
}

/* A layer again also where the file is for evaluation. */
bool dl_ox_dropout(dl_ox_op *o) {
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    double rate = 0.5;
    if (dl_ox_in(o, 1) && !dl_ox_set_number(o->r, dl_ox_in(o, 1), &rate)) return false;
    if (o->n->n_out > 1 && o->n->out[1] && o->n->out[1]->reads) return false;
    dl_ox_arg_tensor(o, "input", o->n->in[0]), dl_ox_arg_real(o, "p", rate);
    return dl_ox_make(o, "aten.dropout.default", o->n->out[0], &s, o->n->in[0]);
}

/* ---- two operands ---- */

static dl_ox_value *binary(dl_ox_op *o, const char *op, dl_ox_value *a, dl_ox_value *b,
                           dl_ox_value *to, bool truth) {
    dl_ox_shape x = dl_ox_shape_of(a), y = dl_ox_shape_of(b), s;
    const dl_ox_value *like = a->t->class == DL_FOREIGN_FLOAT || !a->known ? a : b;
    if (!dl_ox_broadcast(&x, &y, &s)) {
        dl_ox_bad(o->r, "operands of other sizes meet");
        return NULL;
    }
    double number;
    if (dl_ox_number(o->r, a, &number) && dl_ox_number(o->r, b, &number)) return NULL;
    dl_ox_arg_operand(o, "self", a);
    dl_ox_arg_operand(o, strstr(op, ".pow.") ? "exponent" : "other", b);
    return truth ? dl_ox_make_as(o, op, to, &s, DL_FOREIGN_BOOL, DLR_ST_BOOL)
                 : dl_ox_make(o, op, to, &s, like);
}

bool dl_ox_binary(dl_ox_op *o) {
    if (o->n->n_in != 2 || !o->n->in[1]) return false;
    double number;
    bool whole = o->n->in[0]->t->class == DL_FOREIGN_INT;
    const char *op = o->detail;
    if (!whole && strstr(op, ".remainder.")) op = "aten.fmod.Tensor"; /* as C's, too */
    if (whole && strstr(op, ".div.")) { /* ONNX divides whole numbers as C does */
        if (!dl_ox_number(o->r, o->n->in[1], &number) || number <= 0) return false;
        op = "aten.floor_divide.default";
    }
    return binary(o, op, o->n->in[0], o->n->in[1], o->n->out[0], false);
}

/* Truth values are joined with one that is known, or with others. */
bool dl_ox_logic(dl_ox_op *o) {
    bool both = strstr(o->detail, "_and"), either = strstr(o->detail, "_or.");
    for (int i = 0; o->n->n_in == 2 && o->n->in[1] && (both || either) && i < 2; i++) {
        dl_ox_value *x = o->n->in[1 - i];
        dl_ox_shape s = dl_ox_shape_of(x), one = dl_ox_shape_of(o->n->in[i]);
        double number;
        bool same = dl_ox_broadcast(&s, &one, &one) && one.rank == s.rank;
        if (!same || !dl_ox_number(o->r, o->n->in[i], &number)) continue;
        if ((number != 0) == both) return dl_ox_alias(o, x);
        dl_ox_arg_real(o, "fill_value", either);
        return dl_ox_make(o, "aten.full.default", o->n->out[0], &s, x);
    }
    return dl_ox_compare(o);
}

bool dl_ox_compare(dl_ox_op *o) {
    return o->n->n_in == 2 && o->n->in[1] &&
           binary(o, o->detail, o->n->in[0], o->n->in[1], o->n->out[0], true);
}

bool dl_ox_several(dl_ox_op *o) {
    dl_ox_value *so_far = o->n->in[0];
    if (o->n->n_in == 1) return dl_ox_alias(o, so_far);
    for (int i = 1; i < o->n->n_in; i++) {
        dl_ox_value *to = i + 1 == o->n->n_in ? o->n->out[0] : NULL;
        if (!o->n->in[i] || !(so_far = binary(o, o->detail, so_far, o->n->in[i], to, false)))
            return false;
    }
    return true;
}

bool dl_ox_where(dl_ox_op *o) {
    if (o->n->n_in != 3 || !o->n->in[1] || !o->n->in[2]) return false;
    dl_ox_value *a = o->n->in[1], *b = o->n->in[2];
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]), x = dl_ox_shape_of(a), y = dl_ox_shape_of(b);
    if (!dl_ox_broadcast(&s, &x, &s) || !dl_ox_broadcast(&s, &y, &s)) return false;
    dl_ox_arg_tensor(o, "condition", o->n->in[0]);
    dl_ox_arg_operand(o, "self", a), dl_ox_arg_operand(o, "other", b);
    return dl_ox_make(o, "aten.where.self", o->n->out[0], &s, a);
}

bool dl_ox_prelu(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *w = dl_ox_in(o, 1);
    if (!w || !w->stored || w->t->rank < 1 || dl_foreign_count(w->t) != w->t->shape[0])
        return false;
    dl_ox_shape s = dl_ox_shape_of(x), flat = {.rank = 1, .size = {w->t->shape[0]}};
    int64_t stride[DL_FOREIGN_RANK] = {1};
    w = dl_ox_weight(o, w, "weight", w->t->rank > 1 ? &flat : NULL, stride);
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_tensor(o, "weight", w);
    return dl_ox_make(o, "aten.prelu.default", o->n->out[0], &s, x);
}
