/* Rules of layers: ops with weights become layers with PyTorch's names. */
#include <math.h>

#include "imports/dl/rules.h"

static bool is_last(const dl_in_value *v) {
    return v->rank > 0 && dl_axis_of(v, v->rank - 1) == v->n - 1 && v->n > 0;
}

/* The last dimension is the last axis; the others may be in any order. */
static void last_axis(dl_in_ctx *c, dl_in_value *v) {
    dl_whole(c, v);
    for (int a = 0; a < v->n; a++) /* a layer's result has no axis without a name */
        if (v->axis[a].name && !strcmp(v->axis[a].name, "1")) {
            dl_ordered(c, v, false);
            break;
        }
    if (!is_last(v)) dl_ordered(c, v, true);
    for (int d = 0; d < v->rank; d++) dl_axis_name(c, v, d);
}

static dl_in_value *with_last(dl_in_ctx *c, const dl_in_value *v, int stmt, int64_t size) {
    dl_in_value *made = dl_copy_value(c, v);
    int atom = dl_new_atom(c->w, size), a = v->n - 1, d = v->rank - 1;
    made->stmt = stmt, made->param = -1, made->is_view = false;
    made->axis[a].n = made->dim[d].n = 1;
    made->axis[a].atom[0] = made->dim[d].atom[0] = atom;
    return made;
}

/* sum(x * w, over=E) + b, for a weight that is no layer's. */
static bool product(dl_in_ctx *c, dl_in_value *x, dl_in_value *w, dl_in_value *bias) {
    char left[10] = "abcdefg", right[3] = "oz", result[10];
    if (x->rank < 1 || x->rank > 6 || w->rank != 2) return false;
    left[x->rank - 1] = 'z', left[x->rank] = 0;
    strcpy(result, left), result[x->rank - 1] = 'o';
    if (!dl_contract(c, 2, (dl_in_value *[]){x, w}, (const char *[]){left, right}, result))
        return false;
    if (!bias) return true;
    dl_in_value *y = c->b->of[c->n->results[0]->id], *made = dl_match(c, y, bias);
    return dl_done(c, made, dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", y, P_SUM, bias, P_PRODUCT));
}

bool dl_in_linear(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    if (!x || !w || w->rank != 2) return false;
    const char *label = dl_layer_label(c, w, b);
    if (!label) return product(c, x, dl_value_of(c, w), b ? dl_value_of(c, b) : NULL);
    last_axis(c, x);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> linear(%i", x, "features", w->shape[0]);
    dl_say_more(c, "%s) @%l", b ? "" : ", bias=false", label);
    dl_set(c, 0, with_last(c, x, s, w->shape[0]));
    return true;
}

/* y * w + b with a weight and a bias that are no layer's; they are matched from dimension `first`
 * of y on where they have fewer. */
static bool affine(dl_in_ctx *c, dl_in_value *y, const dl_foreign_tensor *w,
                   const dl_foreign_tensor *b, int first) {
    for (int i = 0; i < 2; i++) {
        const dl_foreign_tensor *t = i ? b : w;
        if (!t) continue;
        dl_in_value *v = dl_copy_value(c, dl_value_of(c, t));
        while (v->rank + first < y->rank) v->dim[v->rank++].n = 0; /* channels are not the last */
        dl_in_value *made = dl_match(c, y, v);
        made->stmt = dl_say(c, STMT_PLAIN, i ? P_SUM : P_PRODUCT, i ? "%p + %p" : "%p * %p", y,
                            i ? P_SUM : P_PRODUCT, v, i ? P_PRODUCT : P_UNARY);
        y = made;
    }
    dl_set(c, 0, y);
    return true;
}

static void keep(dl_in_ctx *c, const char *name) {
    const dl_foreign_tensor *t = dl_foreign_operand(c->n, name);
    if (t) c->w->kept[t->id] = true;
}

/* num_batches_tracked stands next to the running mean. */
static void keep_count(dl_in_ctx *c, const char *label) {
    const char *path = dl_format(c->w->arena, "%s.num_batches_tracked", label);
    for (int i = 0; i < c->w->graph->tensors.n; i++)
        if (strcmp(c->w->graph->tensors.at[i]->path, path) == 0) c->w->kept[i] = true;
}

/* Without running statistics: those of the batch, also in evaluation. */
static bool batch_formula(dl_in_ctx *c, dl_in_value *x, const dl_foreign_tensor *w,
                          const dl_foreign_tensor *b) {
    if (x->rank < 2) return false;
    dl_ordered(c, x, true);
    const char *axis = x->axis[0].name;
    for (int d = 2; d < x->rank; d++)
        axis = dl_format(c->w->arena, "%s, %s", axis, x->axis[d].name);
    dl_in_value *y = dl_copy_value(c, x);
    y->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p - mean(%v, over=[%s])", x, P_SUM, x, axis);
    int square = dl_say(c, STMT_PLAIN, P_POSTFIX, "rsqrt(var(%v, over=[%s]) + %r)", x, axis, "eps",
                        dl_foreign_real(c->n, "eps", 1e-5));
    dl_in_value scale = {.stmt = square};
    y->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %p", y, P_PRODUCT, &scale, P_UNARY);
    y->param = -1, y->is_view = false;
    return affine(c, y, w, b, 1);
}

bool dl_in_batch_norm(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    const dl_foreign_tensor *mean = dl_foreign_operand(c->n, "running_mean");
    const dl_foreign_arg *m = dl_foreign_find(c->n, "momentum");
    if (!x || (m && m->kind != DL_ARG_FLOAT)) return false;
    if (!mean) return batch_formula(c, x, w, b);
    static const char *const statistics[] = {"running_mean", "running_var"};
    const dl_foreign_tensor *of[] = {mean, dl_foreign_operand(c->n, "running_var")};
    bool affine = w && b;
    const char *label = affine   ? dl_layer_label(c, w, b)
                        : w || b ? NULL
                                 : dl_label_of_all(c, 2, of, statistics);
    if (!label) return false;
    keep(c, "running_mean"), keep(c, "running_var"), keep_count(c, label);
    double kept = 1 - dl_foreign_real(c->n, "momentum", 0.1),
           eps = dl_foreign_real(c->n, "eps", 1e-5);
    kept = round(kept * 1e12) / 1e12; /* 1 - 0.1 is 0.9 */
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> batch_norm", x);
    int said = 0;
    if (kept != 0.9) dl_say_more(c, "%smomentum=%r", said++ ? ", " : "(", "momentum", kept);
    if (eps != 1e-5) dl_say_more(c, "%seps=%r", said++ ? ", " : "(", "eps", eps);
    if (!affine) dl_say_more(c, "%saffine=false", said++ ? ", " : "(");
    dl_say_more(c, "%s @%l", said ? ")" : "", label);
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

/* (x - mean) / deviation along the last axes, or along all but the first two, with the weight and
 * bias that there are. */
static bool norm_formula(dl_in_ctx *c, dl_in_value *x, bool centred, double eps, int n_last,
                         const dl_foreign_tensor *w, const dl_foreign_tensor *b) {
    const char *axis = "";
    int n = 0;
    for (int d = x->rank - n_last; d < x->rank; d++)
        if (x->dim[d].n)
            axis = dl_format(c->w->arena, "%s%s%s", axis, n++ ? ", " : "", dl_axis_name(c, x, d));
    if (n == 0) return false;
    if (n > 1) axis = dl_format(c->w->arena, "[%s]", axis);
    dl_in_value *y = dl_copy_value(c, x);
    if (centred) {
        y->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p - mean(%v, over=%s)", x, P_SUM, x, axis);
        int square =
            dl_say(c, STMT_PLAIN, P_POSTFIX, "rsqrt(var(%v, over=%s) + %r)", x, axis, "eps", eps);
        dl_in_value scale = {.stmt = square};
        y->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %p", y, P_PRODUCT, &scale, P_UNARY);
    } else
        y->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * rsqrt(mean(%p**2, over=%s) + %r)", x,
                         P_PRODUCT, x, P_POSTFIX, axis, "eps", eps);
    y->param = -1, y->is_view = false;
    return affine(c, y, w, b, x->rank);
}

bool dl_in_layer_norm(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    const dl_foreign_arg *shape = dl_foreign_find(c->n, "normalized_shape");
    bool rms = c->detail[0] == 'r';
    dl_in_value *x = dl_operand(c, "input");
    if (!x || !shape || shape->n < 1 || shape->n > x->rank) return false;
    double standard = rms ? 1.1920928955078125e-07 : 1e-5;
    double eps = dl_foreign_real(c->n, "eps", standard);
    dl_whole(c, x);
    bool several = w && c->w->reads[w->id] > 1; /* one layer has no axis of its own for each */
    if (!x->dim[x->rank - 1].n || several) dl_ordered(c, x, true);
    const char *axis = dl_axis_name(c, x, x->rank - 1);
    for (int d = 0; d < x->rank; d++) dl_axis_name(c, x, d);
    const char *label = w && shape->n == 1 && (rms || b) ? dl_layer_label(c, w, b) : NULL;
    if (!label) return norm_formula(c, x, !rms, eps, shape->n, w, b);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> %s", x, c->detail);
    bool last = is_last(x), said = eps != (rms ? 1e-6 : 1e-5);
    if (said) dl_say_more(c, "(%r", "eps", eps);
    if (!last) dl_say_more(c, "%sover=%s", said ? ", " : "(", axis);
    dl_say_more(c, "%s @%l", said || !last ? ")" : "", label);
    dl_in_value *made = dl_copy_value(c, x);
    made->stmt = s, made->param = -1, made->is_view = false;
    dl_set(c, 0, made);
    return true;
}

bool dl_in_group_norm(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    double eps = dl_foreign_real(c->n, "eps", 1e-5);
    const char *label = w && b ? dl_layer_label(c, w, b) : NULL;
    if (!x) return false;
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> group_norm(%i", x, "groups",
                   dl_foreign_int(c->n, "num_groups", dl_foreign_int(c->n, "group", 1)));
    if (eps != 1e-5) dl_say_more(c, ", eps=%r", "eps", eps);
    if (label)
        dl_say_more(c, ") @%l", label);
    else
        dl_say_more(c, ", affine=false)");
    dl_in_value *y = dl_like(c, s, x, c->n->results[0]);
    if (!label) return affine(c, y, w, b, 1);
    dl_set(c, 0, y);
    return true;
}

bool dl_in_instance_norm(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    double eps = dl_foreign_real(c->n, "eps", 1e-5);
    const char *label = w && b ? dl_layer_label(c, w, b) : NULL;
    if (!x || dl_foreign_operand(c->n, "running_mean")) return false;
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> instance_norm", x);
    if (eps != 1e-5) dl_say_more(c, "(eps=%r%s", "eps", eps, label ? ", " : ")");
    if (label) dl_say_more(c, "%saffine=true) @%l", eps != 1e-5 ? "" : "(", label);
    dl_in_value *y = dl_like(c, s, x, c->n->results[0]);
    if (!label) return affine(c, y, w, b, 1);
    dl_set(c, 0, y);
    return true;
}

bool dl_in_embedding(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight");
    dl_in_value *x = dl_operand(c, "indices");
    int64_t skipped = dl_foreign_int(c->n, "padding_idx", -1);
    const char *label = w ? dl_layer_label(c, w, NULL) : NULL;
    if (!x || !w || w->rank != 2) return false;
    if (!label) return skipped < 0 && dl_gather(c, dl_value_of(c, w), x, 0);
    dl_ordered(c, x, false);
    const char *names[DL_FOREIGN_RANK];
    for (int a = 0; a < x->n; a++) { /* E is the axis of the features */
        names[a] = x->axis[a].name;
        if (!strcmp(names[a], "E")) names[a] = dl_fresh_name(x, a, DL_FOREIGN_RANK);
    }
    dl_rename(c, x, names);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> embedding(%i, %i) @%l", x, "count", w->shape[0],
                   "features", w->shape[1], label);
    dl_in_value *made = dl_copy_value(c, x);
    int atom = dl_new_atom(c->w, w->shape[1]);
    made->is_view = false, made->stmt = s, made->param = -1;
    if (made->n == DL_FOREIGN_RANK) return false;
    made->axis[made->n++] = (dl_in_axis){.name = "E", .n = 1, .atom = {atom}};
    made->dim[made->rank].n = 1, made->dim[made->rank++].atom[0] = atom;
    if (skipped >= 0) { /* its row has no gradient */
        s = dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%p == %i, stop_gradient(%v), %v)", x, P_SUM,
                   "padding", skipped, made, made);
        made->stmt = s;
    }
    dl_set(c, 0, made);
    return true;
}

/* Bags of one size: the sum, mean or largest number of the rows of each. */
bool dl_in_embedding_bag(dl_in_ctx *c) {
    static const char *const modes[] = {"sum", "mean", "max"};
    dl_in_value *w = dl_operand(c, "weight"), *given = dl_operand(c, "indices");
    const dl_foreign_tensor *offsets = dl_foreign_operand(c->n, "offsets"), *t = c->n->results[0];
    int64_t mode = dl_foreign_int(c->n, "mode", 0);
    int by = offsets ? c->w->defined_by[offsets->id] : -1;
    const dl_foreign_node *n = by >= 0 ? &c->w->graph->nodes.at[by] : NULL;
    if (!w || !given || given->rank != 1 || !n || strncmp(n->op, "aten.arange.", 12) != 0 ||
        dl_foreign_int(n, "start", 0) || mode < 0 || mode > 2 || t->rank != 2 ||
        dl_foreign_operand(c->n, "per_sample_weights") ||
        dl_foreign_int(c->n, "padding_idx", -1) >= 0 ||
        dl_foreign_int(c->n, "include_last_offset", 0))
        return false;
    for (int k = 1; k < c->n->n_results; k++)
        if (c->w->last_use[c->n->results[k]->id] >= 0) return false;
    int64_t size = dl_foreign_int(n, "step", 1), bags = t->shape[0];
    if (size < 1 || dl_dim_size(c->w, given, 0) != size * bags) return false;
    dl_in_value *numbers = dl_copy_value(c, given);
    dl_reshape(c, numbers, 2, (int64_t[]){bags, size});
    if (!dl_gather(c, w, numbers, 0)) return false;
    int d = 1;
    return dl_reduce_by(c, c->b->of[t->id], modes[mode], 1, &d, 1);
}

bool dl_in_prelu(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight");
    dl_in_value *x = dl_operand(c, "self");
    if (!x || !w || x->rank < 2 || w->rank > 1) return false;
    bool one = w->shape[0] == 1 || c->w->reads[w->id] == 1; /* the layer names the axis */
    const char *label = one ? dl_layer_label(c, w, NULL) : NULL;
    if (!label) { /* a weight that is no layer's */
        dl_in_value *v = dl_copy_value(c, dl_value_of(c, w));
        while (v->rank + 1 < x->rank) v->dim[v->rank++].n = 0; /* along the channels */
        dl_in_value *made = dl_match(c, x, v);
        return dl_done(c, made,
                       dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%p > 0, %v, %p * %p)", x, P_SUM, x,
                              v, P_PRODUCT, x, P_UNARY));
    }
    dl_whole(c, x);
    const char *axis = w->shape[0] > 1 ? dl_axis_name(c, x, 1) : NULL;
    for (int d = 0; d < x->rank; d++) dl_axis_name(c, x, d);
    int s = axis ? dl_say(c, STMT_LAYER, P_PIPE, "%v |> prelu(over=%s) @%l", x, axis, label)
                 : dl_say(c, STMT_LAYER, P_PIPE, "%v |> prelu @%l", x, label);
    return dl_done(c, x, s);
}

bool dl_in_dropout(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "input");
    if (!x) x = dl_operand(c, "self"); /* in place */
    double p = dl_foreign_real(c->n, "p", 0.5);
    if (!x) return false;
    for (int d = 0; d < x->rank; d++) dl_axis_name(c, x, d);
    if (p == 0) {
        dl_set(c, 0, dl_copy_value(c, x));
        return true;
    }
    return dl_done(c, x, dl_say(c, STMT_LAYER, P_PIPE, "%v |> dropout(%r)", x, "rate", p));
}

bool dl_in_feature_dropout(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "input");
    if (!x) x = dl_operand(c, "self");
    double p = dl_foreign_real(c->n, "p", 0.5);
    if (!x || x->rank < 3) return false;
    if (p == 0) return dl_in_dropout(c);
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * (expand(1.0, over=[%s, %s]) |> dropout(%r))", x,
                   P_PRODUCT, x->axis[0].name, x->axis[1].name, "rate", p);
    return dl_done(c, x, s);
}
