/* Ops with weights, and windows. */
#include "imports/onnx/parts.h"

enum { SPACE = 3 };

/* ---- windows ---- */

typedef struct {
    int n;
    int64_t size[SPACE], kernel[SPACE], stride[SPACE], dilation[SPACE], before[SPACE], after[SPACE];
    bool ceil;
} windows;

static bool read_list(const dl_ox_node *n, const char *name, int count, int64_t standard,
                      int64_t *to) {
    const dl_ox_attr *a = dl_ox_attribute(n, name);
    for (int i = 0; i < count; i++) to[i] = a && i < a->n_ints ? a->ints[i] : standard;
    return !a || a->n_ints == count;
}

/* Windows over x; the kernel is set before. SAME of auto_pad becomes numbers. */
static bool read_windows(dl_ox_op *o, const dl_ox_value *x, windows *w) {
    int64_t pads[2 * SPACE];
    w->n = x->t->rank - 2;
    if (w->n < 1 || w->n > SPACE) return false;
    memcpy(w->size, x->t->shape + 2, (size_t)w->n * sizeof *w->size);
    if (!read_list(o->n, "strides", w->n, 1, w->stride) ||
        !read_list(o->n, "dilations", w->n, 1, w->dilation) ||
        !read_list(o->n, "pads", 2 * w->n, 0, pads))
        return false;
    const char *word = dl_ox_word(o->n, "auto_pad", "NOTSET");
    w->ceil = dl_ox_int(o->n, "ceil_mode", 0) != 0;
    for (int i = 0; i < w->n; i++) {
        if (w->stride[i] < 1 || w->stride[i] > 1 << 20 || w->dilation[i] < 1 ||
            w->dilation[i] > 1 << 20 || w->kernel[i] < 1 || w->kernel[i] > 1 << 20 || pads[i] < 0 ||
            pads[w->n + i] < 0 || pads[i] > 1 << 20 || pads[w->n + i] > 1 << 20)
            return false;
        w->before[i] = pads[i], w->after[i] = pads[w->n + i];
        if (strncmp(word, "SAME", 4) != 0) continue;
        int64_t out = (w->size[i] + w->stride[i] - 1) / w->stride[i];
        int64_t all =
            (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - w->size[i];
        if (all < 0) all = 0;
        w->before[i] = w->after[i] = all / 2;
        *(!strcmp(word, "SAME_UPPER") ? &w->after[i] : &w->before[i]) += all % 2;
    }
    return true;
}

static bool is_even(const windows *w) {
    for (int i = 0; i < w->n; i++)
        if (w->before[i] != w->after[i]) return false;
    return true;
}

static bool find_sizes(const windows *w, dl_ox_shape *s) {
    for (int i = 0; i < w->n; i++) {
        int64_t span =
            w->size[i] + w->before[i] + w->after[i] - (w->kernel[i] - 1) * w->dilation[i] - 1;
        if (span < 0) return false;
        int64_t count = (span + (w->ceil ? w->stride[i] - 1 : 0)) / w->stride[i] + 1;
        if (w->ceil && (count - 1) * w->stride[i] >= w->size[i] + w->before[i]) count--;
        s->size[2 + i] = count;
    }
    return true;
}

/* x with zeros around it, where a window has more on one side than on the other. */
static dl_ox_value *padded(dl_ox_op *o, dl_ox_value *x, windows *w) {
    dl_ox_shape s = dl_ox_shape_of(x);
    int64_t pads[2 * SPACE];
    if (is_even(w)) return x;
    for (int i = 0; i < w->n; i++) { /* PyTorch begins with the last axis */
        pads[2 * (w->n - 1 - i)] = w->before[i], pads[2 * (w->n - 1 - i) + 1] = w->after[i];
        s.size[2 + i] += w->before[i] + w->after[i];
        w->size[i] = s.size[2 + i], w->before[i] = w->after[i] = 0;
    }
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "pad", 2 * w->n, pads);
    return dl_ox_make(o, "aten.pad.default", NULL, &s, x);
}

static const char *with_rank(dl_ox_op *o, const char *name, int n, const char *overload) {
    return dl_format(o->r->arena, "%s%dd.%s", name, n, overload);
}

bool dl_ox_convolution(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *k = dl_ox_in(o, 1), *b = dl_ox_in(o, 2);
    bool back = *o->detail;
    int64_t groups = dl_ox_int(o->n, "group", 1), more[SPACE] = {0};
    windows w = {0};
    if (!k || k->t->rank != x->t->rank || x->t->rank < 3 || x->t->rank > 5 || groups < 1)
        return false;
    memcpy(w.kernel, k->t->shape + 2, (size_t)(x->t->rank - 2) * sizeof *w.kernel);
    if (!read_windows(o, x, &w)) return false;
    if (x->t->shape[1] != (back ? k->t->shape[0] : k->t->shape[1] * groups))
        return dl_ox_bad(o->r, "its weight is for another number of channels than %lld",
                         (long long)x->t->shape[1]);
    dl_ox_shape s = dl_ox_shape_of(x);
    if (back) {
        if (!is_even(&w) || dl_ox_attribute(o->n, "output_shape") ||
            !read_list(o->n, "output_padding", w.n, 0, more) ||
            strncmp(dl_ox_word(o->n, "auto_pad", "NOTSET"), "SAME", 4) == 0)
            return false;
        s.size[1] = k->t->shape[1] * groups;
        for (int i = 0; i < w.n; i++) {
            s.size[2 + i] = (w.size[i] - 1) * w.stride[i] - 2 * w.before[i] +
                            (w.kernel[i] - 1) * w.dilation[i] + more[i] + 1;
            if (s.size[2 + i] < 0 || more[i] < 0) return false;
        }
    } else {
        if (!(x = padded(o, x, &w))) return false;
        s.size[1] = k->t->shape[0];
        if (!find_sizes(&w, &s)) return dl_ox_bad(o->r, "its window is larger than its operand");
    }
    k = dl_ox_weight(o, k, "weight", NULL, NULL), b = dl_ox_weight(o, b, "bias", NULL, NULL);
    dl_ox_arg_tensor(o, "input", x), dl_ox_arg_tensor(o, "weight", k);
    dl_ox_arg_tensor(o, "bias", b);
    dl_ox_arg_ints(o, "stride", w.n, w.stride), dl_ox_arg_ints(o, "padding", w.n, w.before);
    dl_ox_arg_ints(o, "dilation", w.n, w.dilation), dl_ox_arg_int(o, "groups", groups);
    if (back) dl_ox_arg_ints(o, "output_padding", w.n, more);
    const char *op = with_rank(o, back ? "aten.conv_transpose" : "aten.conv", w.n, "default");
    return dl_ox_make(o, op, o->n->out[0], &s, x);
}

bool dl_ox_pool(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    bool most = o->detail[0] == 'm',
         counts = o->detail[0] == 'l' || dl_ox_int(o->n, "count_include_pad", 0) != 0;
    windows w = {0};
    dl_ox_shape s = dl_ox_shape_of(x);
    if (x->t->rank < 3 || x->t->rank > 5 ||
        (o->n->n_out > 1 && o->n->out[1] && o->n->out[1]->reads) ||
        !read_list(o->n, "kernel_shape", x->t->rank - 2, 1, w.kernel) || !read_windows(o, x, &w))
        return false;
    if (!is_even(&w)) { /* zeros are no less than what they stand next to */
        if (most || !counts) return false;
        if (!(x = padded(o, x, &w))) return false;
    }
    for (int i = 0; i < w.n && !most; i++)
        if (w.dilation[i] != 1) return false;
    if (!find_sizes(&w, &s)) return dl_ox_bad(o->r, "its window is larger than its operand");
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "kernel_size", w.n, w.kernel);
    dl_ox_arg_ints(o, "stride", w.n, w.stride), dl_ox_arg_ints(o, "padding", w.n, w.before);
    if (most) dl_ox_arg_ints(o, "dilation", w.n, w.dilation);
    if (!most) dl_ox_arg_int(o, "count_include_pad", counts);
    if (w.ceil) dl_ox_arg_int(o, "ceil_mode", 1);
    return dl_ox_make(o, with_rank(o, most ? "aten.max_pool" : "aten.avg_pool", w.n, "default"),
                      o->n->out[0], &s, x);
}

bool dl_ox_global_pool(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    int64_t dims[DL_FOREIGN_RANK];
    if (s.rank < 3) return false;
    for (int d = 2; d < s.rank; d++) dims[d - 2] = d, s.size[d] = 1;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "dim", s.rank - 2, dims);
    dl_ox_arg_int(o, "keepdim", 1);
    return dl_ox_make(o, o->detail, o->n->out[0], &s, x);
}

/* The sizes of a resized x: all of them, or those that `axes` names. False: they are not known, or
 * change samples or channels. */
static bool read_sizes(dl_ox_op *o, dl_ox_shape *s, bool *whole) {
    const double *sizes = dl_ox_in(o, 3) ? dl_ox_known(o->r, o->n->in[3]) : NULL;
    const double *scales = dl_ox_in(o, 2) ? dl_ox_setting(o->r, o->n->in[2]) : NULL;
    const dl_ox_value *list = sizes ? o->n->in[3] : scales ? o->n->in[2] : NULL;
    const dl_ox_attr *axes = dl_ox_attribute(o->n, "axes");
    int64_t n = list ? dl_foreign_count(list->t) : 0;
    if (!list || n != (axes ? axes->n_ints : s->rank) || n < 1) return false;
    *whole = true;
    for (int k = 0; k < n; k++) {
        int d = axes ? dl_ox_dim(axes->ints[k], s->rank) : k;
        if (d < 0) return false;
        double own = (double)s->size[d], size = sizes ? sizes[k] : own * scales[k];
        if (d == 0 && o->r->baked && size == (double)o->r->baked) size = own; /* of any batch */
        if (!(size >= 1 && size < 1e9) || (d < 2 && size != own)) return false;
        if (!sizes && size != (double)(int64_t)size) return false;
        *whole = *whole && (int64_t)size % s->size[d] == 0;
        s->size[d] = (int64_t)size;
    }
    return true;
}

bool dl_ox_resize(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    const char *mode = dl_ox_word(o->n, "mode", "nearest"),
               *where = dl_ox_word(o->n, "coordinate_transformation_mode", "half_pixel"),
               *round = dl_ox_word(o->n, "nearest_mode", "round_prefer_floor"), *op;
    bool nearest = !strcmp(mode, "nearest"), cubic = !strcmp(mode, "cubic"),
         corners = !strcmp(where, "align_corners"), whole;
    if (s.rank < 3 || s.rank > 5 || (!nearest && !cubic && strcmp(mode, "linear") != 0) ||
        (cubic && (s.rank != 4 || dl_ox_real(o->n, "cubic_coeff_a", -0.75) != -0.75)) ||
        dl_ox_int(o->n, "antialias", 0) || dl_ox_int(o->n, "exclude_outside", 0) ||
        !read_sizes(o, &s, &whole))
        return false;
    /* of whole factors both ways of rounding down agree */
    bool down = !strcmp(where, "asymmetric") && !strcmp(round, "floor");
    bool middle = !strcmp(where, "half_pixel") || !strcmp(where, "pytorch_half_pixel");
    if (nearest ? !down && !(whole && middle && strncmp(round, "round", 5) == 0)
                : !corners && !middle)
        return false;
    if (cubic)
        op = "aten.upsample_bicubic2d.vec";
    else
        op = (const char *const[]){"aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec",
                                   "aten.upsample_trilinear3d.vec"}[s.rank - 3];
    if (nearest) op = dl_format(o->r->arena, "aten.upsample_nearest%dd.vec", s.rank - 2);
    dl_ox_arg_tensor(o, "input", x);
    if (corners) dl_ox_arg_int(o, "align_corners", 1);
    return dl_ox_make(o, op, o->n->out[0], &s, x);
}

/* ---- products ---- */

/* A stored matrix [in, out] as the weight [out, in] of a linear layer. */
static dl_ox_value *linear_weight(dl_ox_op *o, dl_ox_value *w, bool turned) {
    if (turned) return dl_ox_weight(o, w, "weight", NULL, NULL);
    const int64_t *old = w->t->data->stride;
    dl_ox_shape s = {.rank = 2, .size = {w->t->shape[1], w->t->shape[0]}};
    return dl_ox_weight(o, w, "weight", &s, (int64_t[DL_FOREIGN_RANK]){old[1], old[0]});
}

static bool linear(dl_ox_op *o, dl_ox_value *x, dl_ox_value *w, dl_ox_value *b) {
    dl_ox_shape s = dl_ox_shape_of(x);
    if (x->t->shape[s.rank - 1] != w->t->shape[1])
        return dl_ox_bad(o->r, "its weight is for another number of features than %lld",
                         (long long)x->t->shape[s.rank - 1]);
    s.size[s.rank - 1] = w->t->shape[0];
    b = dl_ox_weight(o, b, "bias", NULL, NULL);
    dl_ox_arg_tensor(o, "input", x), dl_ox_arg_tensor(o, "weight", w),
        dl_ox_arg_tensor(o, "bias", b);
    return dl_ox_make(o, "aten.linear.default", o->n->out[0], &s, x);
}

/* Whether a matrix is the weight of a linear layer: not a parameter that a model multiplies by. */
static bool is_layer(dl_ox_op *o, const dl_ox_value *w) {
    size_t n = strlen(w->name);
    return w->stored && w->t->rank == 2 && w->t->class == DL_FOREIGN_FLOAT &&
           (!dl_ox_is_name(o->r, w) || (n > 7 && !strcmp(w->name + n - 7, ".weight")));
}

bool dl_ox_matmul(dl_ox_op *o) {
    dl_ox_value *a = o->n->in[0], *b = dl_ox_in(o, 1), *bias = dl_ox_in(o, 2);
    if (!b || a->t->rank < 1 || b->t->rank < 1) return false;
    if (a->t->rank >= 2 && b->turned && is_layer(o, b->turned))
        return linear(o, a, linear_weight(o, b->turned, true), bias);
    if (a->t->rank >= 2 && is_layer(o, b) && !dl_ox_is_name(o->r, b))
        return linear(o, a, linear_weight(o, b, false), bias);
    dl_ox_shape x = dl_ox_shape_of(a), y = dl_ox_shape_of(b), s;
    int64_t rows = x.rank > 1 ? x.size[x.rank - 2] : 0,
            columns = y.rank > 1 ? y.size[y.rank - 1] : 0;
    if (x.size[x.rank - 1] != y.size[y.rank > 1 ? y.rank - 2 : 0])
        return dl_ox_bad(o->r, "matrices of other sizes meet");
    bool has_rows = x.rank > 1, has_columns = y.rank > 1;
    x.rank = x.rank > 2 ? x.rank - 2 : 0, y.rank = y.rank > 2 ? y.rank - 2 : 0;
    if (!dl_ox_broadcast(&x, &y, &s) || s.rank + 2 > DL_FOREIGN_RANK) return false;
    if (has_rows) s.size[s.rank++] = rows;
    if (has_columns) s.size[s.rank++] = columns;
    dl_ox_arg_tensor(o, "self", a), dl_ox_arg_tensor(o, "other", b);
    dl_ox_value *made = dl_ox_make(o, "aten.matmul.default", bias ? NULL : o->n->out[0], &s, a);
    if (!bias || !made) return made;
    dl_ox_arg_tensor(o, "self", made), dl_ox_arg_tensor(o, "other", bias);
    return dl_ox_make(o, "aten.add.Tensor", o->n->out[0], &s, a);
}

static dl_ox_value *turn(dl_ox_op *o, dl_ox_value *v) {
    dl_ox_shape s = {.rank = 2, .size = {v->t->shape[1], v->t->shape[0]}};
    dl_ox_arg_tensor(o, "self", v);
    return dl_ox_make(o, "aten.t.default", NULL, &s, v);
}

bool dl_ox_gemm(dl_ox_op *o) {
    dl_ox_value *a = o->n->in[0], *b = dl_ox_in(o, 1), *c = dl_ox_in(o, 2);
    double alpha = dl_ox_real(o->n, "alpha", 1), beta = dl_ox_real(o->n, "beta", 1);
    bool turn_a = dl_ox_int(o->n, "transA", 0), turn_b = dl_ox_int(o->n, "transB", 0);
    if (!b || a->t->rank != 2 || b->t->rank != 2) return false;
    if (alpha == 1 && (!c || beta == 1) && !turn_a && (!c || (c->stored && c->t->rank == 1)) &&
        b->stored && b->t->data && b->t->class == DL_FOREIGN_FLOAT &&
        (turn_b || !dl_ox_is_name(o->r, b)))
        return linear(o, a, linear_weight(o, b, turn_b), c);
    if ((turn_a && !(a = turn(o, a))) || (turn_b && !(b = turn(o, b)))) return false;
    dl_ox_shape s = {.rank = 2, .size = {a->t->shape[0], b->t->shape[1]}};
    if (a->t->shape[1] != b->t->shape[0]) return dl_ox_bad(o->r, "matrices of other sizes meet");
    dl_ox_arg_tensor(o, "self", a), dl_ox_arg_tensor(o, "other", b);
    bool scaled = alpha != 1;
    dl_ox_value *made =
        dl_ox_make(o, "aten.matmul.default", c || scaled ? NULL : o->n->out[0], &s, a);
    if (made && scaled) {
        dl_ox_arg_tensor(o, "self", made), dl_ox_arg_real(o, "other", alpha);
        made = dl_ox_make(o, "aten.mul.Tensor", c ? NULL : o->n->out[0], &s, a);
    }
    if (!made || !c) return made;
    dl_ox_arg_tensor(o, "self", made), dl_ox_arg_operand(o, "other", c);
    if (beta != 1) dl_ox_arg_real(o, "alpha", beta);
    return dl_ox_make(o, "aten.add.Tensor", o->n->out[0], &s, a);
}

/* ---- norms ---- */

/* A vector as the node's weight [C]. */
static dl_ox_value *vector(dl_ox_op *o, dl_ox_value *v, const char *role) {
    if (!(v = dl_ox_vector(o->r, v))) return NULL;
    dl_ox_shape s = {.rank = 1, .size = {v->t->shape[0]}};
    int64_t stride[DL_FOREIGN_RANK] = {v->t->data->stride[0]};
    return dl_ox_weight(o, v, role, v->t->rank > 1 ? &s : NULL, stride);
}

/* Whether all are that number, and none is a parameter's. */
static bool are(dl_ox *r, dl_ox_value *v, double number) {
    const double *known = dl_ox_known(r, v);
    for (int64_t i = 0; known && i < dl_foreign_count(v->t); i++)
        if (known[i] != number) return false;
    return known != NULL;
}

bool dl_ox_batch_norm(dl_ox_op *o) {
    static const char *const args[] = {"weight", "bias", "running_mean", "running_var"};
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    if (o->n->n_in != 5 || s.rank < 2) return false;
    dl_ox_arg_tensor(o, "input", x);
    for (int i = 0; i < 4; i++) {
        dl_ox_value *v = vector(o, o->n->in[1 + i], args[i]);
        if (!v) return false;
        if (v->t->shape[0] != s.size[1])
            return dl_ox_bad(o->r, "its %s is of another size", args[i]);
        if (i > 1) v->t->origin = DL_FOREIGN_BUFFER;
        dl_ox_arg_tensor(o, args[i], v);
    }
    dl_ox_arg_real(o, "momentum", 1 - dl_ox_real(o->n, "momentum", 0.9));
    dl_ox_arg_real(o, "eps", dl_ox_real(o->n, "epsilon", 1e-5));
    return dl_ox_make(o, "aten.batch_norm.default", o->n->out[0], &s, x);
}

/* Whether the exporter has taken another module's parameter for a norm without weights, as its
 * numbers are all 1. */
static bool is_merged_one(const dl_ox_op *o, const dl_ox_value *w) {
    const char *module = o->n->depth ? o->n->stack[o->n->depth - 1].path : NULL;
    if (!w || !module || !o->r->has_signature || w->reads < 2 || !dl_ox_is_parameter(o->r, w) ||
        dl_ox_find(o->r, dl_format(o->r->arena, "%s.weight", module))->trained)
        return false;
    int64_t n = dl_foreign_count(w->t);
    double *numbers = DL_NEWS(o->r->arena, double, n + 1);
    bool ones = dl_foreign_numbers(&o->r->graph, w->t, numbers, o->r->err);
    for (int64_t i = 0; ones && i < n; i++) ones = numbers[i] == 1;
    return ones;
}

bool dl_ox_layer_norm(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *w = dl_ox_in(o, 1), *b = dl_ox_in(o, 2);
    dl_ox_shape s = dl_ox_shape_of(x);
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", -1), s.rank);
    for (int i = 1; i < o->n->n_out; i++)
        if (o->n->out[i] && o->n->out[i]->reads) return false;
    if (axis < 0) return false;
    dl_ox_value *of[] = {w, b};
    if ((are(o->r, w, 1) || is_merged_one(o, w)) && (!b || are(o->r, b, 0)))
        of[0] = of[1] = NULL; /* it has no weights */
    dl_ox_arg_tensor(o, "input", x);
    for (int i = 0; i < 2; i++)
        if (of[i])
            dl_ox_arg_tensor(o, i ? "bias" : "weight",
                             dl_ox_weight(o, of[i], i ? "bias" : "weight", NULL, NULL));
    dl_ox_arg_ints(o, "normalized_shape", s.rank - axis, s.size + axis);
    dl_ox_arg_real(o, "eps", dl_ox_real(o->n, "epsilon", 1e-5));
    return dl_ox_make(o, dl_format(o->r->arena, "aten.%s.default", o->detail), o->n->out[0], &s, x);
}

bool dl_ox_group_norm(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *w = dl_ox_in(o, 1), *b = dl_ox_in(o, 2), *shape = dl_ox_in(o, 3);
    dl_ox_shape s = dl_ox_shape_of(x);
    int64_t groups = dl_ox_int(o->n, "num_groups", 1);
    const double *known = shape ? dl_ox_known(o->r, shape) : NULL;
    if (s.rank < 3 || groups < 1 || s.size[1] % groups) return false;
    if (shape && (!known || dl_foreign_count(shape->t) != s.rank)) return false;
    for (int d = 1; shape && d < s.rank; d++)
        if (known[d] != (double)s.size[d]) return false;
    if ((w && !(w = vector(o, w, "weight"))) || (b && !(b = vector(o, b, "bias")))) return false;
    if (w && w->t->shape[0] != s.size[1]) return false; /* opset 18: a number for each group */
    dl_ox_arg_tensor(o, "input", x), dl_ox_arg_tensor(o, "weight", w),
        dl_ox_arg_tensor(o, "bias", b);
    dl_ox_arg_int(o, "num_groups", groups);
    dl_ox_arg_real(o, "eps", dl_ox_real(o->n, "epsilon", 1e-5));
    return dl_ox_make(o, "aten.group_norm.default", o->n->out[0], &s, x);
}

bool dl_ox_instance_norm(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *w = dl_ox_in(o, 1), *b = dl_ox_in(o, 2);
    dl_ox_shape s = dl_ox_shape_of(x);
    if (!w || !b || s.rank < 3) return false;
    dl_ox_arg_tensor(o, "input", x);
    if (!are(o->r, w, 1) || !are(o->r, b, 0)) {
        if (!(w = vector(o, w, "weight")) || !(b = vector(o, b, "bias"))) return false;
        dl_ox_arg_tensor(o, "weight", w), dl_ox_arg_tensor(o, "bias", b);
    }
    dl_ox_arg_real(o, "eps", dl_ox_real(o->n, "epsilon", 1e-5));
    return dl_ox_make(o, "aten.instance_norm.default", o->n->out[0], &s, x);
}
