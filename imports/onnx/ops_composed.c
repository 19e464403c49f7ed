/* Ops that are several of PyTorch's, or one with other arguments. */
#include "imports/onnx/parts.h"

static dl_ox_value *with_number(dl_ox_op *o, const char *op, dl_ox_value *x, double number,
                                dl_ox_value *to) {
    dl_ox_shape s = dl_ox_shape_of(x);
    dl_ox_arg_tensor(o, "self", x);
    dl_ox_arg_real(o, strstr(op, ".pow.") ? "exponent" : "other", number);
    return dl_ox_make(o, op, to, &s, x);
}

/* a op b, of which b may have sizes of 1. */
static dl_ox_value *pair(dl_ox_op *o, const char *op, dl_ox_value *a, dl_ox_value *b,
                         dl_ox_value *to) {
    dl_ox_shape s = dl_ox_shape_of(a);
    dl_ox_arg_tensor(o, "self", a), dl_ox_arg_tensor(o, "other", b);
    return dl_ox_make(o, op, to, &s, a);
}

bool dl_ox_mean_of(dl_ox_op *o) {
    dl_ox_value *sum = o->n->in[0];
    int n = o->n->n_in;
    if (n == 1) return dl_ox_alias(o, sum);
    for (int i = 1; i < n; i++) {
        dl_ox_shape s, x = dl_ox_shape_of(sum), y;
        if (!o->n->in[i]) return false;
        y = dl_ox_shape_of(o->n->in[i]);
        if (!dl_ox_broadcast(&x, &y, &s)) return dl_ox_bad(o->r, "operands of other sizes meet");
        dl_ox_arg_tensor(o, "self", sum), dl_ox_arg_tensor(o, "other", o->n->in[i]);
        if (!(sum = dl_ox_make(o, "aten.add.Tensor", NULL, &s, sum))) return false;
    }
    return with_number(o, "aten.div.Tensor", sum, n, o->n->out[0]);
}

bool dl_ox_thresholded(dl_ox_op *o) {
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    dl_ox_arg_tensor(o, "self", o->n->in[0]);
    dl_ox_arg_real(o, "threshold", dl_ox_real(o->n, "alpha", 1)), dl_ox_arg_real(o, "value", 0);
    return dl_ox_make(o, "aten.threshold.default", o->n->out[0], &s, o->n->in[0]);
}

/* Towards 0 by the bias, and 0 between the bounds. */
bool dl_ox_shrink(dl_ox_op *o) {
    double bias = dl_ox_real(o->n, "bias", 0), bound = dl_ox_real(o->n, "lambd", 0.5);
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    if (bias != 0 && bias != bound) return false;
    dl_ox_arg_tensor(o, "self", o->n->in[0]), dl_ox_arg_real(o, "lambd", bound);
    return dl_ox_make(o, bias != 0 ? "aten.softshrink.default" : "aten.hardshrink.default",
                      o->n->out[0], &s, o->n->in[0]);
}

/* x by its norm along an axis */
bool dl_ox_lp_norm(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", -1), s.rank);
    if (axis < 0) return false;
    int64_t dim = axis;
    s.size[axis] = 1;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_real(o, "ord", (double)dl_ox_int(o->n, "p", 2));
    dl_ox_arg_ints(o, "dim", 1, &dim), dl_ox_arg_int(o, "keepdim", 1);
    dl_ox_value *norm = dl_ox_make(o, "aten.linalg_vector_norm.default", NULL, &s, x);
    return norm && pair(o, "aten.div.Tensor", x, norm, o->n->out[0]);
}

/* x by (bias + alpha * the mean square of `size` channels around it) ** beta */
bool dl_ox_local_norm(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *y;
    dl_ox_shape whole = dl_ox_shape_of(x), s = {4, {1, 1, 1, 1}};
    int64_t size = dl_ox_int(o->n, "size", 1), before = (size - 1) / 2;
    if (whole.rank < 3 || size < 1 || size > 1 << 20) return false;
    s.size[0] = whole.size[0], s.size[2] = whole.size[1];
    for (int d = 2; d < whole.rank; d++) s.size[3] *= whole.size[d];
    if (!(y = pair(o, "aten.mul.Tensor", x, x, NULL))) return false;
    dl_ox_arg_tensor(o, "self", y);
    if (!(y = dl_ox_make(o, "aten.reshape.default", NULL, &s, x))) return false;
    s.size[2] += size - 1;
    dl_ox_arg_tensor(o, "self", y);
    dl_ox_arg_ints(o, "pad", 4, (int64_t[]){0, 0, before, size - 1 - before});
    if (!(y = dl_ox_make(o, "aten.pad.default", NULL, &s, x))) return false;
    s.size[2] -= size - 1;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_ints(o, "kernel_size", 2, (int64_t[]){size, 1});
    dl_ox_arg_ints(o, "stride", 2, (int64_t[]){1, 1});
    if (!(y = dl_ox_make(o, "aten.avg_pool2d.default", NULL, &s, x))) return false;
    dl_ox_arg_tensor(o, "self", y);
    if (!(y = dl_ox_make(o, "aten.reshape.default", NULL, &whole, x))) return false;
    y = with_number(o, "aten.mul.Tensor", y, dl_ox_real(o->n, "alpha", 0.0001), NULL);
    if (y) y = with_number(o, "aten.add.Tensor", y, dl_ox_real(o->n, "bias", 1), NULL);
    if (y) y = with_number(o, "aten.pow.Tensor_Scalar", y, dl_ox_real(o->n, "beta", 0.75), NULL);
    return y && pair(o, "aten.div.Tensor", x, y, o->n->out[0]);
}

static dl_ox_value *with_mean(dl_ox_op *o, dl_ox_value *x, int n, const int64_t *dims) {
    dl_ox_shape s = dl_ox_shape_of(x);
    for (int i = 0; i < n; i++) s.size[dims[i]] = 1;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "dim", n, dims);
    dl_ox_arg_int(o, "keepdim", 1);
    return dl_ox_make(o, "aten.mean.dim", NULL, &s, x);
}

/* x without its mean, by its deviation and 1e-9 */
bool dl_ox_mean_variance(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *y, *square, *by;
    dl_ox_shape s = dl_ox_shape_of(x);
    int64_t axes[DL_FOREIGN_RANK] = {0, 2, 3};
    int n = dl_ox_ints(o, o->n->n_in, "axes", DL_FOREIGN_RANK, axes);
    if (n < -1) return false;
    if (n == -1) n = 3;
    for (int i = 0; i < n; i++)
        if ((axes[i] = dl_ox_dim(axes[i], s.rank)) < 0) return false;
    if (!(by = with_mean(o, x, n, axes)) || !(y = pair(o, "aten.sub.Tensor", x, by, NULL)) ||
        !(square = pair(o, "aten.mul.Tensor", y, y, NULL)) || !(by = with_mean(o, square, n, axes)))
        return false;
    by = with_number(o, "aten.pow.Tensor_Scalar", by, 0.5, NULL);
    if (by) by = with_number(o, "aten.add.Tensor", by, 1e-9, NULL);
    return by && pair(o, "aten.div.Tensor", y, by, o->n->out[0]);
}

/* The node's op on other operands, whose result is a new value. */
static dl_ox_value *inner(dl_ox_op *o, dl_ox_rule *rule, const char *detail, dl_ox_value *x) {
    dl_ox_node n = *o->n;
    dl_ox_op of = {.r = o->r, .n = &n, .detail = detail};
    dl_ox_value *to = DL_NEW(o->r->arena, dl_ox_value), **out = DL_NEW(o->r->arena, dl_ox_value *),
                **in = DL_NEWS(o->r->arena, dl_ox_value *, n.n_in + 1);
    *to = (dl_ox_value){.name = dl_format(o->r->arena, "%s/inner", o->n->out[0]->name), .by = -1};
    memcpy(in, n.in, (size_t)n.n_in * sizeof *in);
    in[0] = x, *out = to;
    n.in = in, n.out = out, n.n_out = 1;
    return rule(&of) ? to : NULL;
}

/* The root of the sum of powers of each window. */
bool dl_ox_lp_pool(dl_ox_op *o) {
    const dl_ox_attr *kernel = dl_ox_attribute(o->n, "kernel_shape");
    double p = (double)dl_ox_int(o->n, "p", 2), count = 1;
    dl_ox_value *x = o->n->in[0], *y;
    dl_ox_shape s = dl_ox_shape_of(x);
    if (!kernel || p < 1 || dl_ox_int(o->n, "ceil_mode", 0)) return false;
    for (int i = 0; i < kernel->n_ints; i++) count *= (double)kernel->ints[i];
    dl_ox_arg_tensor(o, "self", x);
    y = dl_ox_make(o, "aten.abs.default", NULL, &s, x);
    if (y && p > 1) y = with_number(o, "aten.pow.Tensor_Scalar", y, p, NULL);
    if (!y || !(y = inner(o, dl_ox_pool, o->detail, y))) return false;
    y = with_number(o, "aten.mul.Tensor", y, count, p > 1 ? NULL : o->n->out[0]);
    return y && (p == 1 || with_number(o, "aten.pow.Tensor_Scalar", y, 1 / p, o->n->out[0]));
}

/* The middle of axes, or zeros around them. */
bool dl_ox_center_crop_pad(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    const dl_ox_attr *axes = dl_ox_attribute(o->n, "axes");
    int64_t size[DL_FOREIGN_RANK];
    int n = dl_ox_ints(o, 1, NULL, DL_FOREIGN_RANK, size);
    if (n < 0 || n != (axes ? axes->n_ints : s.rank)) return false;
    for (int k = 0; k < n; k++) {
        int d = dl_ox_dim(axes ? axes->ints[k] : k, s.rank);
        if (d < 0 || size[k] < 1 || size[k] > 1 << 24) return false;
        int64_t own = s.size[d], more = size[k] - own, pad[2 * DL_FOREIGN_RANK] = {0};
        if (own % DL_OX_BATCH == 0) return false;
        if (more == 0) continue;
        s.size[d] = size[k];
        dl_ox_arg_tensor(o, "self", x);
        if (more < 0) {
            dl_ox_arg_int(o, "dim", d), dl_ox_arg_int(o, "start", -more / 2);
            dl_ox_arg_int(o, "end", -more / 2 + size[k]);
        } else {
            int at = 2 * (s.rank - 1 - d); /* PyTorch begins with the last dimension */
            pad[at] = more / 2, pad[at + 1] = more - more / 2;
            dl_ox_arg_ints(o, "pad", at + 2, pad);
        }
        x = dl_ox_make(o, more < 0 ? "aten.slice.Tensor" : "aten.pad.default", NULL, &s, x);
        if (!x) return false;
    }
    return dl_ox_alias(o, x);
}

/* Ones on a diagonal, of the operand's sizes. */
bool dl_ox_eye_like(dl_ox_op *o) {
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    int64_t k = dl_ox_int(o->n, "k", 0);
    dl_foreign_tensor t = *o->n->in[0]->t;
    if (s.rank != 2 || s.size[0] % DL_OX_BATCH == 0 || s.size[1] % DL_OX_BATCH == 0 ||
        dl_ox_count(&s) > 1 << 20 ||
        (dl_ox_attribute(o->n, "dtype") &&
         !dl_ox_set_type(&t, (uint64_t)dl_ox_int(o->n, "dtype", 1))))
        return false;
    double *numbers = DL_NEWS(o->r->arena, double, dl_ox_count(&s) + 1);
    for (int64_t i = 0; i < s.size[0]; i++)
        for (int64_t j = 0; j < s.size[1]; j++) numbers[i * s.size[1] + j] = j - i == k;
    dl_ox_hold(o->r, o->n->out[0], &s, t.class, t.dtype, numbers);
    return true;
}

/* 1 at the first largest number along an axis, else 0. */
bool dl_ox_hardmax(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *y;
    dl_ox_shape s = dl_ox_shape_of(x), turned = s, places = s;
    int d = dl_ox_dim(dl_ox_int(o->n, "axis", -1), s.rank), last = s.rank - 1;
    if (d < 0 || s.size[d] % DL_OX_BATCH == 0) return false;
    int64_t n = s.size[d];
    turned.size[d] = s.size[last], turned.size[last] = n, places = turned, places.rank--;
    dl_ox_arg_tensor(o, "self", x);
    dl_ox_arg_int(o, "dim0", d), dl_ox_arg_int(o, "dim1", last);
    if (!(y = dl_ox_make(o, "aten.transpose.int", NULL, &turned, x))) return false;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_int(o, "dim", last);
    y = dl_ox_make_as(o, "aten.argmax.default", NULL, &places, DL_FOREIGN_INT, DLR_ST_I64);
    if (!y) return false;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_int(o, "num_classes", n);
    if (!(y = dl_ox_make(o, "aten.one_hot.default", NULL, &turned, y))) return false;
    dl_ox_arg_tensor(o, "self", y);
    if (!(y = dl_ox_make(o, "aten.to.dtype", NULL, &turned, x))) return false;
    dl_ox_arg_tensor(o, "self", y);
    dl_ox_arg_int(o, "dim0", d), dl_ox_arg_int(o, "dim1", last);
    return dl_ox_make(o, "aten.transpose.int", o->n->out[0], &s, x);
}

bool dl_ox_log_sum(dl_ox_op *o) {
    dl_ox_value *sum = inner(o, dl_ox_reduce, "aten.sum.dim_IntList", o->n->in[0]);
    if (!sum) return false;
    dl_ox_shape s = dl_ox_shape_of(sum);
    dl_ox_arg_tensor(o, "self", sum);
    return dl_ox_make(o, "aten.log.default", o->n->out[0], &s, sum);
}

/* The largest or smallest numbers along an axis, and their places. */
bool dl_ox_top_k(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s[2] = {dl_ox_shape_of(x)};
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", -1), s[0].rank);
    double k;
    if (axis < 0 || !dl_ox_in(o, 1) || !dl_ox_number(o->r, o->n->in[1], &k) || k < 1 ||
        k > (double)s[0].size[axis] || x->t->class != DL_FOREIGN_FLOAT)
        return false;
    s[0].size[axis] = (int64_t)k, s[1] = s[0];
    dl_ox_value *to[2] = {o->n->out[0], o->n->n_out > 1 ? o->n->out[1] : NULL};
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "k", (int64_t)k),
        dl_ox_arg_int(o, "dim", axis);
    dl_ox_arg_int(o, "largest", dl_ox_int(o->n, "largest", 1));
    if (!dl_ox_make_several(o, "aten.topk.default", 2, to, s, x)) return false;
    to[1]->t->class = DL_FOREIGN_INT, to[1]->t->dtype = DLR_ST_I64;
    return true;
}

/* Along the last axis. */
bool dl_ox_one_hot(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *depth = dl_ox_in(o, 1), *values = dl_ox_in(o, 2), *y;
    const double *known = values ? dl_ox_setting(o->r, values) : NULL;
    dl_ox_shape s = dl_ox_shape_of(x);
    double n;
    int64_t axis = dl_ox_int(o->n, "axis", -1);
    if (!known || values->other || dl_foreign_count(values->t) != 2 || !depth ||
        !dl_ox_number(o->r, depth, &n) || n < 1 || n > 1 << 24 || s.rank == DL_FOREIGN_RANK ||
        (axis != -1 && axis != s.rank) || x->t->class != DL_FOREIGN_INT ||
        values->t->class != DL_FOREIGN_FLOAT)
        return false;
    s.size[s.rank++] = (int64_t)n;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "num_classes", (int64_t)n);
    if (!(y = dl_ox_make(o, "aten.one_hot.default", NULL, &s, x))) return false;
    bool plain = known[0] == 0 && known[1] == 1;
    dl_ox_arg_tensor(o, "self", y);
    y = dl_ox_make_as(o, "aten.to.dtype", plain ? o->n->out[0] : NULL, &s, DL_FOREIGN_FLOAT,
                      values->t->dtype);
    if (!y || plain) return y;
    y = with_number(o, "aten.mul.Tensor", y, known[1] - known[0], NULL);
    return y && with_number(o, "aten.add.Tensor", y, known[0], o->n->out[0]);
}

bool dl_ox_grid_sample(dl_ox_op *o) {
    static const char *const modes[] = {"linear", "nearest"}, *const pads[] = {"zeros", "border",
                                                                               "reflection"};
    dl_ox_value *x = o->n->in[0], *grid = dl_ox_in(o, 1);
    const char *mode = dl_ox_word(o->n, "mode", "linear"),
               *pad = dl_ox_word(o->n, "padding_mode", "zeros");
    int m = !strcmp(mode, modes[1]), p = 0;
    if (!grid || grid->t->rank != x->t->rank || x->t->rank < 4) return false;
    if (!m && strcmp(mode, "linear") != 0 && strcmp(mode, "bilinear") != 0) return false;
    while (p < 3 && strcmp(pads[p], pad) != 0) p++;
    if (p == 3) return false;
    dl_ox_shape s = dl_ox_shape_of(x);
    for (int d = 2; d < s.rank; d++) s.size[d] = grid->t->shape[d - 1];
    dl_ox_arg_tensor(o, "input", x), dl_ox_arg_tensor(o, "grid", grid);
    dl_ox_arg_int(o, "interpolation_mode", m), dl_ox_arg_int(o, "padding_mode", p);
    dl_ox_arg_int(o, "align_corners", dl_ox_int(o->n, "align_corners", 0));
    return dl_ox_make(o, "aten.grid_sampler.default", o->n->out[0], &s, x);
}

bool dl_ox_scatter_elements(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *at = dl_ox_in(o, 1), *from = dl_ox_in(o, 2);
    dl_ox_shape s = dl_ox_shape_of(x);
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", 0), s.rank);
    const char *how = dl_ox_word(o->n, "reduction", "none");
    bool adds = !strcmp(how, "add");
    if (axis < 0 || !at || !from || (!adds && strcmp(how, "none") != 0)) return false;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "dim", axis);
    dl_ox_arg_tensor(o, "index", at), dl_ox_arg_tensor(o, "src", from);
    return dl_ox_make(o, adds ? "aten.scatter_add.default" : "aten.scatter.src", o->n->out[0], &s,
                      x);
}

/* ---- attention of opset 23 ---- */

/* [N, T, (heads d)] as [N, heads, T, d] */
static dl_ox_value *heads_of(dl_ox_op *o, dl_ox_value *v, int64_t heads) {
    if (!v || v->t->rank == 4) return v;
    int64_t n = v->t->shape[0], t = v->t->shape[1], e = v->t->shape[2];
    if (v->t->rank != 3 || heads < 1 || e % heads) return NULL;
    dl_ox_shape split = {4, {n, t, heads, e / heads}}, turned = {4, {n, heads, t, e / heads}};
    dl_ox_arg_tensor(o, "self", v);
    dl_ox_value *y = dl_ox_make(o, "aten.reshape.default", NULL, &split, v);
    if (!y) return NULL;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_ints(o, "dims", 4, (int64_t[]){0, 2, 1, 3});
    return dl_ox_make(o, "aten.permute.default", NULL, &turned, v);
}

bool dl_ox_attention(dl_ox_op *o) {
    static const char *const names[] = {"query", "key", "value"};
    dl_ox_value *x = o->n->in[0], *v[3], *y;
    bool flat = x->t->rank == 3;
    for (int i = 4; i < o->n->n_in; i++) /* keys and values of the past */
        if (o->n->in[i]) return false;
    for (int i = 1; i < o->n->n_out; i++)
        if (o->n->out[i] && o->n->out[i]->reads) return false;
    for (int i = 0; i < 3; i++) {
        int64_t heads = dl_ox_int(o->n, i ? "kv_num_heads" : "q_num_heads", 1);
        if (!(v[i] = heads_of(o, dl_ox_in(o, i), heads)) || v[i]->t->rank != 4) return false;
    }
    dl_ox_shape s = dl_ox_shape_of(v[0]);
    s.size[3] = v[2]->t->shape[3];
    for (int i = 0; i < 3; i++) dl_ox_arg_tensor(o, names[i], v[i]);
    dl_ox_arg_tensor(o, "attn_mask", dl_ox_in(o, 3));
    dl_ox_arg_int(o, "is_causal", dl_ox_int(o->n, "is_causal", 0)),
        dl_ox_arg_int(o, "enable_gqa", 1);
    if (dl_ox_attribute(o->n, "scale")) dl_ox_arg_real(o, "scale", dl_ox_real(o->n, "scale", 1));
    if (dl_ox_attribute(o->n, "softcap")) /* PyTorch has none */
        dl_ox_arg_real(o, "softcap", dl_ox_real(o->n, "softcap", 0));
    y = dl_ox_make(o, "aten.scaled_dot_product_attention.default", flat ? NULL : o->n->out[0], &s,
                   x);
    if (!y || !flat) return y;
    dl_ox_shape turned = {4, {s.size[0], s.size[2], s.size[1], s.size[3]}},
                end = {3, {s.size[0], s.size[2], s.size[1] * s.size[3]}};
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_ints(o, "dims", 4, (int64_t[]){0, 2, 1, 3});
    if (!(y = dl_ox_make(o, "aten.permute.default", NULL, &turned, x))) return false;
    dl_ox_arg_tensor(o, "self", y);
    return dl_ox_make(o, "aten.reshape.default", o->n->out[0], &end, x);
}
