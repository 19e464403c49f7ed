/* Layers of torch.nn: which op could be one, and how it is constructed. */
#include "exports/pytorch/parts.h"
#include "ir/relation.h"

const dl_var *dl_torch_var_of(const dl_value *v) {
    while (v->def && v->def->op == DL_OP_rename) v = v->def->in[0];
    bool kept = v->var && (v->var->role == DL_VAR_PARAM || v->var->role == DL_VAR_STATE);
    return kept ? v->var : NULL;
}

/* "blocks.0.attn" of the parameter "blocks.0.attn.weight"; NULL: another value. */
static const char *path_of(const dl_value *v, const char *role) {
    const dl_var *var = dl_torch_var_of(v);
    const char *dot = var ? strrchr(var->name, '.') : NULL;
    if (!dot || strcmp(dot + 1, role) != 0) return NULL;
    return dl_intern_n(var->name, (size_t)(dot - var->name));
}

static bool is_of(const dl_value *v, const char *path, const char *role) {
    return path && path_of(v, role) == path;
}

/* ", dtype=torch.float64" for the layers that are not of f32. */
static const char *dtype_of(torch_export *t, const dl_value *v) {
    if (v->type.dtype == DL_F32) return "";
    return dl_format(t->arena, ", dtype=%s", dl_torch_dtype(v->type.dtype));
}

/* ", name=3" where a value is not all the default. */
static const char *window(torch_export *t, const char *name, int n, const int64_t *v,
                          int64_t otherwise) {
    bool is_default = true;
    for (int i = 0; i < n; i++) is_default &= v[i] == otherwise;
    return is_default ? "" : dl_format(t->arena, ", %s=%s", name, dl_torch_ints(t, n, v));
}

bool dl_torch_is_convolution(const dl_node *n) {
    return n->op == dl_op_making(DL_TENSOR_Y) || n->op == dl_op_making(DL_TENSOR_X);
}

static const char *convolution(torch_export *t, const dl_node *n, bool bias) {
    dl_windows w = dl_node_windows(n);
    const dl_type *k = &n->in[1]->type;
    int64_t kernel[3], none[3] = {0}, extra[3] = {0};
    bool transposed = n->op == dl_op_making(DL_TENSOR_X);
    for (int i = 0; i < w.n; i++) {
        kernel[i] = k->axis[i + 2].size;
        if (transposed)
            extra[i] = n->out[0].type.axis[i + 2].size -
                       ((n->in[0]->type.axis[i + 2].size - 1) * w.stride[i] - 2 * w.pad_lo[i] +
                        (kernel[i] - 1) * w.dilation[i] + 1);
        int64_t most = w.stride[i] > w.dilation[i] ? w.stride[i] : w.dilation[i];
        if (extra[i] < 0 || extra[i] >= most) return NULL;
    }
    bool even = memcmp(w.pad_lo, w.pad_hi, sizeof(int64_t) * (size_t)w.n) == 0;
    const int64_t *pad = even || transposed ? w.pad_lo : none;
    int64_t groups = w.groups;
    return dl_format(t->arena, "nn.Conv%s%dd(%lld, %lld, %s%s%s%s%s%s%s%s)",
                     transposed ? "Transpose" : "", w.n, (long long)n->in[0]->type.axis[1].size,
                     (long long)n->out[0].type.axis[1].size, dl_torch_ints(t, w.n, kernel),
                     window(t, "stride", w.n, w.stride, 1), window(t, "padding", w.n, pad, 0),
                     window(t, "output_padding", w.n, extra, 0),
                     window(t, "dilation", w.n, w.dilation, 1), window(t, "groups", 1, &groups, 1),
                     bias ? "" : ", bias=False", dtype_of(t, n->in[1]));
}

/* ", eps=1e-06" where it is not PyTorch's default. */
static const char *number(torch_export *t, const char *name, double v, double otherwise) {
    if (v == otherwise) return "";
    return dl_format(t->arena, ", %s=%.12g", name, v);
}

static const char *norm(torch_export *t, const dl_node *n) {
    const dl_type *x = &n->in[0]->type;
    const char *eps = number(t, "eps", dl_node_float(n, DL_ATTR_eps), 1e-5),
               *dtype = dtype_of(t, n->in[1]);
    if (n->op == DL_OP_layer_norm)
        return dl_format(t->arena, "nn.LayerNorm(%lld%s%s)", (long long)x->axis[x->rank - 1].size,
                         eps, dtype);
    long long channels = x->axis[1].size;
    if (n->op == DL_OP_group_norm)
        return dl_format(t->arena, "nn.GroupNorm(%lld, %lld%s%s)",
                         (long long)dl_node_int(n, DL_ATTR_groups), channels, eps, dtype);
    int spatial = x->rank < 4 ? 1 : x->rank - 2;
    if (spatial > 3) return NULL;
    return dl_format(t->arena, "nn.BatchNorm%dd(%lld%s%s%s)", spatial, channels, eps,
                     number(t, "momentum", 1 - dl_node_float(n, DL_ATTR_momentum), 1 - 0.9), dtype);
}

static const char *embedding(torch_export *t, const dl_node *n) {
    const dl_type *w = &n->in[0]->type, *index = &n->in[1]->type;
    if (w->rank != 2 || w->axis[0].name != dl_node_name(n, DL_ATTR_axis) ||
        dl_type_axis(index, w->axis[1].name) >= 0)
        return NULL;
    return dl_format(t->arena, "nn.Embedding(%lld, %lld%s)", (long long)w->axis[0].size,
                     (long long)w->axis[1].size, dtype_of(t, n->in[0]));
}

static const char *linear(torch_export *t, const dl_node *n, bool bias) {
    const dl_type *w = &n->in[1]->type;
    return dl_format(t->arena, "nn.Linear(%lld, %lld%s%s)", (long long)w->axis[1].size,
                     (long long)w->axis[0].size, bias ? "" : ", bias=False", dtype_of(t, n->in[1]));
}

const char *dl_torch_constructor(torch_export *t, const dl_node *n, bool bias, const char **path,
                                 int *parameters) {
    *parameters = bias ? 2 : 1;
    if (dl_torch_is_convolution(n)) {
        *path = path_of(n->in[1], "weight");
        return *path ? convolution(t, n, bias) : NULL;
    }
    switch (n->op) {
    case DL_OP_linear:
        *path = path_of(n->in[1], "weight");
        return *path ? linear(t, n, bias) : NULL;
    case DL_OP_gather: *path = path_of(n->in[0], "weight"); return *path ? embedding(t, n) : NULL;
    case DL_OP_batch_norm:
        *path = path_of(n->in[1], "weight"), *parameters = 5; /* with num_batches_tracked */
        return is_of(n->in[2], *path, "bias") && is_of(n->in[3], *path, "running_mean") &&
                       is_of(n->in[4], *path, "running_var")
                   ? norm(t, n)
                   : NULL;
    case DL_OP_layer_norm:
    case DL_OP_group_norm:
        *path = path_of(n->in[1], "weight"), *parameters = 2;
        return is_of(n->in[2], *path, "bias") ? norm(t, n) : NULL;
    default: return NULL;
    }
}
