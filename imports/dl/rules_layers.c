/* Rules of layers: ops with weights become layers with PyTorch's names. */
#include <math.h>

#include "imports/dl/rules.h"

static bool is_last(const dl_in_value *v) {
    return v->rank > 0 && dl_axis_of(v, v->rank - 1) == v->n - 1 && v->n > 0;
}

/* The last dimension is the last axis; the others may be in any order. */
static void last_axis(dl_in_ctx *c, dl_in_value *v) {
    dl_whole(c, v);
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

/* Window arguments: as many as there are spatial axes. */
static int window(const dl_foreign_node *n, const char *name, int spatial, int64_t standard,
                  int64_t *to) {
    const dl_foreign_arg *a = dl_foreign_find(n, name);
    for (int i = 0; i < spatial; i++)
        to[i] = !a || a->kind != DL_ARG_INTS || a->n == 0
                    ? (a && a->kind == DL_ARG_INT ? a->ints[0] : standard)
                : a->n == spatial ? a->ints[i]
                                  : a->ints[0];
    return a ? 1 : 0;
}

static bool all_are(int n, const int64_t *v, int64_t what) {
    for (int i = 0; i < n; i++)
        if (v[i] != what) return false;
    return true;
}

static void say_window(dl_in_ctx *c, const char *name, int n, const int64_t *v, int64_t standard) {
    if (all_are(n, v, v[0]))
        dl_say_option(c, name, dl_in_whole(c->w, v[0]), dl_in_whole(c->w, standard));
    else
        dl_say_window(c, name, dl_format(c->w->arena, ", %s=", name), n, v);
}

bool dl_in_convolution(dl_in_ctx *c) {
    bool back = *c->detail;
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    if (!x || !w || x->rank != w->rank) return false;
    const char *label = dl_layer_label(c, w, b);
    int n = w->rank - 2;
    int64_t stride[3], pad[3], dilation[3], more[3], groups = dl_foreign_int(c->n, "groups", 1);
    if (!label || n < 1 || n > 3) return false;
    const char *word = dl_foreign_text(c->n, "padding", NULL);
    window(c->n, "stride", n, 1, stride), window(c->n, "padding", n, 0, pad);
    window(c->n, "dilation", n, 1, dilation), window(c->n, "output_padding", n, 0, more);
    dl_ordered(c, x, true);
    int64_t channels = back ? w->shape[1] * groups : w->shape[0];
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> %s(%i", x, back ? "conv_transpose" : "conv",
                   "channels", channels);
    dl_say_window(c, "kernel", ", ", n, w->shape + 2);
    say_window(c, "stride", n, stride, 1);
    if (word)
        dl_say_more(c, ", pad=%s", word);
    else
        say_window(c, "pad", n, pad, 0);
    say_window(c, "out_pad", n, more, 0);
    say_window(c, "dilation", n, dilation, 1);
    dl_say_option(c, "groups", dl_in_whole(c->w, groups), "1");
    dl_say_more(c, "%s) @%l", b ? "" : ", bias=false", label);
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
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

bool dl_in_batch_norm(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    const dl_foreign_tensor *mean = dl_foreign_operand(c->n, "running_mean");
    const dl_foreign_arg *m = dl_foreign_find(c->n, "momentum");
    if (!x || !w || !b || !mean || (m && m->kind != DL_ARG_FLOAT)) return false;
    const char *label = dl_layer_label(c, w, b);
    if (!label) return false;
    keep(c, "running_mean"), keep(c, "running_var"), keep_count(c, label);
    double kept = 1 - dl_foreign_real(c->n, "momentum", 0.1),
           eps = dl_foreign_real(c->n, "eps", 1e-5);
    kept = round(kept * 1e12) / 1e12; /* 1 - 0.1 is 0.9 */
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> batch_norm", x);
    if (kept != 0.9) dl_say_more(c, "(momentum=%r", "momentum", kept);
    if (eps != 1e-5) dl_say_more(c, "%seps=%r", kept != 0.9 ? ", " : "(", "eps", eps);
    dl_say_more(c, "%s @%l", kept != 0.9 || eps != 1e-5 ? ")" : "", label);
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

/* (x - mean) / deviation along one axis, with the weight and bias that there are. */
static bool norm_formula(dl_in_ctx *c, dl_in_value *x, bool centred, double eps,
                         const dl_foreign_tensor *w, const dl_foreign_tensor *b) {
    const char *axis = dl_axis_name(c, x, x->rank - 1);
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
    for (int i = 0; i < 2; i++) {
        const dl_foreign_tensor *t = i ? b : w;
        if (!t) continue;
        dl_in_value *v = dl_value_of(c, t), *made = dl_match(c, y, v);
        made->stmt = dl_say(c, STMT_PLAIN, i ? P_SUM : P_PRODUCT, i ? "%p + %p" : "%p * %p", y,
                            i ? P_SUM : P_PRODUCT, v, i ? P_PRODUCT : P_UNARY);
        y = made;
    }
    dl_set(c, 0, y);
    return true;
}

bool dl_in_layer_norm(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    const dl_foreign_arg *shape = dl_foreign_find(c->n, "normalized_shape");
    bool rms = c->detail[0] == 'r';
    dl_in_value *x = dl_operand(c, "input");
    if (!x || !shape || shape->n != 1) return false;
    double standard = rms ? 1.1920928955078125e-07 : 1e-5;
    double eps = dl_foreign_real(c->n, "eps", standard);
    dl_whole(c, x);
    if (!x->dim[x->rank - 1].n) dl_ordered(c, x, true);
    const char *axis = dl_axis_name(c, x, x->rank - 1);
    for (int d = 0; d < x->rank; d++) dl_axis_name(c, x, d);
    const char *label = w && (rms || b) ? dl_layer_label(c, w, b) : NULL;
    if (!label) return norm_formula(c, x, !rms, eps, w, b);
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
    if (!x || (w && !label)) return false;
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> group_norm(%i", x, "groups",
                   dl_foreign_int(c->n, "num_groups", 1));
    if (eps != 1e-5) dl_say_more(c, ", eps=%r", "eps", eps);
    if (label)
        dl_say_more(c, ") @%l", label);
    else
        dl_say_more(c, ", affine=false)");
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

bool dl_in_instance_norm(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    double eps = dl_foreign_real(c->n, "eps", 1e-5);
    const char *label = w && b ? dl_layer_label(c, w, b) : NULL;
    if (!x || (w && !label) || dl_foreign_operand(c->n, "running_mean")) return false;
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> instance_norm", x);
    if (eps != 1e-5) dl_say_more(c, "(eps=%r%s", "eps", eps, label ? ", " : ")");
    if (label) dl_say_more(c, "%saffine=true) @%l", eps != 1e-5 ? "" : "(", label);
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

bool dl_in_embedding(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight");
    dl_in_value *x = dl_operand(c, "indices");
    int64_t skipped = dl_foreign_int(c->n, "padding_idx", -1);
    const char *label = w ? dl_layer_label(c, w, NULL) : NULL;
    if (!x || !label || w->rank != 2) return false;
    dl_ordered(c, x, false);
    for (int a = 0; a < x->n; a++)
        if (!strcmp(x->axis[a].name, "E")) return false;
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

bool dl_in_prelu(dl_in_ctx *c) {
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight");
    dl_in_value *x = dl_operand(c, "self");
    const char *label = w ? dl_layer_label(c, w, NULL) : NULL;
    if (!x || !label || x->rank < 2) return false;
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

/* ---- attention ---- */

/* [..., heads, T, d] as [N, T, (heads d)] */
static dl_in_value *tokens(dl_in_ctx *c, const dl_in_value *v) {
    dl_in_value *t = dl_copy_value(c, v);
    int r = v->rank, groups[3];
    if (r == 4) { /* heads go to the features */
        t->dim[r - 3] = v->dim[r - 2], t->dim[r - 2] = v->dim[r - 3];
        groups[0] = 0, groups[1] = 1, groups[2] = 2;
    } else
        groups[0] = 0, groups[1] = 1, groups[2] = 2;
    dl_grouped(c, t, 3, groups);
    return t;
}

static bool masked(dl_in_ctx *c, dl_in_value *q, dl_in_value *k, dl_in_value *v, double scale) {
    dl_in_value *mask = dl_operand(c, "attn_mask");
    int r = q->rank;
    const char *q_in[] = {0, 0, "atd", "ahtd"}, *k_in[] = {0, 0, "asd", "ahsd"},
               *s_out[] = {0, 0, "ats", "ahts"};
    const dl_foreign_tensor *result = c->n->results[0];
    if (!dl_contract(c, 2, (dl_in_value *[]){q, k}, (const char *[]){q_in[r - 1], k_in[r - 1]},
                     s_out[r - 1]))
        return false;
    dl_in_value *s = dl_copy_value(c, c->b->of[result->id]);
    s->is_view = false, s->class = DL_FOREIGN_FLOAT;
    s->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %r", s, P_PRODUCT, "scale", scale);
    bool truth = mask->class == DL_FOREIGN_BOOL;
    dl_in_value *made = dl_match(c, s, mask);
    made->stmt = truth ? dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%v, %v, -1e30)", mask, s)
                       : dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", s, P_SUM, mask, P_PRODUCT);
    made->stmt = dl_call_function(c, "softmax", made, ", over=%s", dl_axis_name(c, made, r - 1));
    double p = dl_foreign_real(c->n, "dropout_p", 0);
    if (p > 0) made->stmt = dl_say(c, STMT_LAYER, P_PIPE, "%v |> dropout(%r)", made, "rate", p);
    return dl_contract(c, 2, (dl_in_value *[]){made, v},
                       (const char *[]){s_out[r - 1], k_in[r - 1]}, q_in[r - 1]);
}

bool dl_in_attention(dl_in_ctx *c) {
    dl_in_value *q = dl_operand(c, "query"), *k = dl_operand(c, "key"), *v = dl_operand(c, "value");
    if (!q || !k || !v || q->rank < 3 || q->rank > 4 || k->rank != q->rank || v->rank != q->rank ||
        dl_foreign_int(c->n, "enable_gqa", 0))
        return false;
    int r = q->rank;
    double d = (double)dl_dim_size(c->w, q, r - 1),
           scale = dl_foreign_real(c->n, "scale", 1 / sqrt(d));
    int64_t heads = r == 4 ? dl_dim_size(c->w, q, 1) : 1;
    bool causal = dl_foreign_int(c->n, "is_causal", 0);
    if (r == 4 && dl_dim_size(c->w, k, 1) != heads) return false;
    if (dl_foreign_find(c->n, "attn_mask")) return masked(c, q, k, v, scale);
    if (dl_dim_size(c->w, v, r - 1) != dl_dim_size(c->w, q, r - 1)) return false;
    if (fabs(scale * sqrt(d) - 1) > 1e-6) {
        dl_in_value *scaled = dl_copy_value(c, q);
        for (int i = 0; i < q->rank; i++) dl_axis_name(c, q, i);
        scaled->stmt =
            dl_say(c, STMT_PLAIN, P_PRODUCT, "%r * %p", "scale", scale * sqrt(d), q, P_UNARY);
        q = scaled;
    }
    dl_in_value *x = tokens(c, q), *y = tokens(c, k), *z = tokens(c, v);
    if (!strcmp(x->axis[1].name, y->axis[1].name) &&
        dl_axis_size_of(c->w, &x->axis[1]) != dl_axis_size_of(c->w, &y->axis[1])) {
        dl_rename(c, y, (const char *[]){y->axis[0].name, "S", y->axis[2].name});
        dl_rename(c, z, (const char *[]){z->axis[0].name, "S", z->axis[2].name});
    }
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "attention(%v, %v, %v, %i", x, y, z, "heads", heads);
    double p = dl_foreign_real(c->n, "dropout_p", 0);
    if (p > 0) dl_say_more(c, ", dropout=%r", "dropout", p);
    dl_say_more(c, causal ? ", causal=true)" : ")");
    dl_in_value *made = dl_copy_value(c, x);
    made->stmt = s, made->param = -1, made->is_view = false, made->rank = r;
    if (r == 4) { /* [N, T, (heads d)] is [N, heads, T, d] */
        int64_t h = heads;
        dl_reshape(c, made, 4,
                   (int64_t[]){dl_axis_size_of(c->w, &x->axis[0]),
                               dl_axis_size_of(c->w, &x->axis[1]), h,
                               dl_axis_size_of(c->w, &x->axis[2]) / h});
        dl_in_value copy = *made;
        made->dim[1] = copy.dim[2], made->dim[2] = copy.dim[1];
    }
    dl_set(c, 0, made);
    return true;
}

/* ---- windows without weights ---- */

bool dl_in_pool(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "self");
    bool most = c->detail[0] == 'm';
    const char *digit = strpbrk(c->n->op, "123");
    int n = digit ? *digit - '0' : 0;
    int64_t kernel[3], stride[3], pad[3], dilation[3];
    if (!x || x->rank != n + 2 || c->n->n_results != 1 || dl_foreign_find(c->n, "divisor_override"))
        return false;
    window(c->n, "kernel_size", n, 1, kernel), window(c->n, "padding", n, 0, pad);
    window(c->n, "dilation", n, 1, dilation);
    const dl_foreign_arg *given = dl_foreign_find(c->n, "stride");
    if (given && given->n)
        window(c->n, "stride", n, 1, stride);
    else
        memcpy(stride, kernel, sizeof stride);
    dl_ordered(c, x, true);
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> %s(", x, c->detail);
    dl_say_window(c, "kernel", "", n, kernel);
    bool as_kernel = memcmp(stride, kernel, (size_t)n * sizeof *stride) == 0;
    if (!as_kernel) dl_say_window(c, "stride", ", stride=", n, stride);
    say_window(c, "pad", n, pad, 0);
    if (most) say_window(c, "dilation", n, dilation, 1);
    if (!most && !dl_foreign_int(c->n, "count_include_pad", 1) && !all_are(n, pad, 0))
        dl_say_more(c, ", count_include_pad=false");
    if (dl_foreign_int(c->n, "ceil_mode", 0)) dl_say_more(c, ", ceil_mode=true");
    dl_say_more(c, ")");
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

bool dl_in_adaptive_pool(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "self");
    const char *digit = strpbrk(c->n->op, "123");
    int n = digit ? *digit - '0' : 0;
    int64_t size[3];
    if (!x || x->rank != n + 2 || c->n->n_results != 1) return false;
    for (int i = 0; i < n; i++) size[i] = c->n->results[0]->shape[2 + i];
    dl_ordered(c, x, true);
    if (all_are(n, size, 1)) {
        int s = dl_call_function(c, "mean", x, ", over=[");
        for (int i = 0; i < n; i++) dl_say_more(c, "%s%s", i ? ", " : "", x->axis[2 + i].name);
        dl_say_more(c, "]");
        dl_in_value *made = dl_copy_value(c, x);
        made->stmt = s, made->n = 2, made->param = -1, made->is_view = false;
        for (int i = 0; i < n; i++) made->dim[2 + i].n = 0;
        dl_set(c, 0, made);
        return true;
    }
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> adaptive_avg_pool(", x);
    dl_say_window(c, "size", "", n, size);
    dl_say_more(c, ")");
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

bool dl_in_upsample(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "input");
    if (!x) x = dl_operand(c, "self");
    if (!x || x->rank < 3 || c->n->n_results != 1) return false;
    const dl_foreign_tensor *t = c->n->results[0];
    const dl_foreign_arg *factors = dl_foreign_find(c->n, "scale_factors");
    int n = x->rank - 2;
    int64_t size[3], times[3];
    bool whole = true, nearest = c->detail[0] == 'n';
    dl_ordered(c, x, true);
    for (int i = 0; i < n; i++) {
        int64_t from = dl_axis_size_of(c->w, &x->axis[2 + i]);
        size[i] = t->shape[2 + i], times[i] = size[i] / from;
        whole = whole && size[i] % from == 0;
        /* a fraction may be rounded: PyTorch then samples by the factor, not by the sizes */
        if (factors && factors->kind == DL_ARG_FLOATS && i < factors->n &&
            factors->reals[i] * (double)from != (double)size[i])
            return false;
    }
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> upsample(", x);
    if (whole)
        dl_say_window(c, "factor", "scale_factor=", n, times);
    else
        dl_say_window(c, "size", "size=", n, size);
    if (!nearest) dl_say_more(c, ", mode=\"%s\"", c->detail);
    if (dl_foreign_int(c->n, "align_corners", 0)) dl_say_more(c, ", align_corners=true");
    dl_say_more(c, ")");
    dl_set(c, 0, dl_like(c, s, x, t));
    return true;
}

/* ---- recurrent layers ---- */

static dl_in_value *weight_of(dl_in_ctx *c, const dl_foreign_arg *list, int i, const char *const *names) {
    dl_in_value *v = i < list->n && list->tensors[i] ? dl_value_of(c, list->tensors[i]) : NULL;
    if (!v || v->param < 0) return NULL;
    dl_rename(c, v, names);
    return v;
}

/* One direction of one layer: the module Recurrence, which the text begins with. */
static dl_in_value *lstm_layer(dl_in_ctx *c, dl_in_value *x, const dl_foreign_arg *params, int at,
                               bool biases, bool backwards) {
    const dl_foreign_tensor *hidden = params->tensors[at + 1];
    int64_t steps = dl_axis_size_of(c->w, &x->axis[1]), size = hidden->shape[1];
    const char *last = x->axis[2].name;
    dl_in_value *in = weight_of(c, params, at, (const char *[]){"G", last}),
                *state = weight_of(c, params, at + 1, (const char *[]){"G", "K"}), *bias = NULL;
    if (!in || !state || strcmp(last, "G") == 0 || strcmp(last, "K") == 0) return NULL;
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "einsum(\"nte,ge->ntg\", %v, %v)", x, in);
    dl_in_value gates = {.stmt = s};
    for (int k = 0; biases && k < 2; k++) {
        bias = weight_of(c, params, at + 2 + k, (const char *[]){"G"});
        if (!bias) return NULL;
        gates.stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", &gates, P_SUM, bias, P_PRODUCT);
    }
    c->w->uses_lstm = true;
    s = dl_say(c, STMT_PLAIN, P_POSTFIX, "Recurrence(%i, %i, %s)(%v, %v) as [N, T, %s]",
               "steps", steps, "size", size, backwards ? "true" : "false", &gates, state, last);
    c->b->stmts.at[s].prec = P_PIPE;
    dl_in_value *y = dl_copy_value(c, x);
    int atom = dl_new_atom(c->w, size);
    y->stmt = s, y->is_view = false, y->param = -1;
    y->axis[0].name = "N", y->axis[1].name = "T";
    y->axis[2].n = y->dim[2].n = 1, y->axis[2].atom[0] = y->dim[2].atom[0] = atom;
    return y;
}

static bool is_zero(const dl_in_ctx *c, const dl_foreign_arg *states) {
    for (int i = 0; i < states->n; i++) {
        int by = states->tensors[i] ? c->w->defined_by[states->tensors[i]->id] : -1;
        if (by < 0 || strncmp(c->w->graph->nodes.at[by].op, "aten.zeros.", 11) != 0) return false;
    }
    return true;
}

bool dl_in_lstm(dl_in_ctx *c) {
    const dl_foreign_arg *params = dl_foreign_find(c->n, "params"), *states = dl_foreign_find(c->n, "hx");
    dl_in_value *x = dl_operand(c, "input");
    bool biases = dl_foreign_int(c->n, "has_biases", 1), both = dl_foreign_int(c->n, "bidirectional", 0);
    int layers = (int)dl_foreign_int(c->n, "num_layers", 1), each = biases ? 4 : 2;
    double rate = dl_foreign_real(c->n, "dropout", 0);
    if (!x || x->rank != 3 || !params || !states || !dl_foreign_int(c->n, "batch_first", 0) ||
        !is_zero(c, states) || params->n != layers * each * (both ? 2 : 1) ||
        c->w->last_use[c->n->results[1]->id] >= 0 || c->w->last_use[c->n->results[2]->id] >= 0)
        return false;
    const char *first = params->tensors[0] ? params->tensors[0]->path : "", *dot = strrchr(first, '.');
    const char *path = dot ? dl_strndup(c->w->arena, first, (size_t)(dot - first)) : NULL;
    if (!path || !dl_label_in(c->w, c->b, path)) return false;
    dl_ordered(c, x, true);
    if (strcmp(x->axis[0].name, "N") != 0 || strcmp(x->axis[1].name, "T") != 0) return false;
    dl_in_body *b = dl_new_body(c->w, "LSTM", path);
    dl_in_ctx outer = *c, inner = {.w = c->w, .b = b, .n = c->n, .index = c->index};
    dl_in_value *given = x;
    c = &inner, x = dl_enter(c, x, 0);
    for (int k = 0, at = 0; k < layers; k++) {
        dl_in_value *half[2] = {0};
        for (int d = 0; d < (both ? 2 : 1); d++, at += each)
            if (!(half[d] = lstm_layer(c, x, params, at, biases, d))) return false;
        x = half[0];
        if (both) {
            const char *last = x->axis[2].name;
            dl_in_value *y = dl_copy_value(c, x);
            y->axis[2].atom[0] = y->dim[2].atom[0] = dl_new_atom(c->w, 2 * dl_axis_size_of(c->w, &x->axis[2]));
            y->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(%v, %v, over=%s)", half[0], half[1], last);
            x = y;
        }
        if (rate > 0 && k + 1 < layers)
            x->stmt = dl_say(c, STMT_LAYER, P_PIPE, "%v |> dropout(%r)", x, "rate", rate);
    }
    dl_push(c->w->arena, &b->returns, x->stmt);
    dl_say_call(&outer, b, 1, &given, path);
    dl_in_value *made = dl_copy_value(&outer, x);
    made->stmt = outer.b->stmts.n - 1, made->is_view = false;
    dl_set(&outer, 0, made);
    return true;
}

/* What the text begins with where a model has LSTMs: PyTorch's gates are i, f, g, o. */
const char dl_in_lstm_module[] =
    "module Recurrence(steps, size, backwards)(x: [N, T, G], w: [G, K]):\n"
    "    h = expand(0.0, over=N, K=size)\n"
    "    c = h\n"
    "    y = []\n"
    "    for i in range(steps):\n"
    "        g = x[T=steps - 1 - i if backwards else i] + einsum(\"nk,gk->ng\", h, w) as [N, K]\n"
    "        c = sigmoid(g[K=size:2 * size]) * c + sigmoid(g[K=:size]) * tanh(g[K=2 * size:3 * size])\n"
    "        h = sigmoid(g[K=3 * size:]) * tanh(c)\n"
    "        y = [unsqueeze(h, over=T, at=1)] + y if backwards else y + [unsqueeze(h, over=T, at=1)]\n"
    "    return cat(y, over=T)\n\n";
