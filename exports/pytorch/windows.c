/* Rules of ops by windows: convolutions, pools, other sizes. */
#include <math.h>

#include "exports/pytorch/parts.h"
#include "ir/relation.h"

/* The operand with padding before and after each spatial axis. */
static const char *padded(torch_export *t, const char *x, const dl_windows *w, const char *value) {
    const char *s = "";
    for (int i = w->n - 1; i >= 0; i--)
        s = dl_format(t->arena, "%s%s%lld, %lld", s, *s ? ", " : "", (long long)w->pad_lo[i],
                      (long long)w->pad_hi[i]);
    return dl_format(t->arena, "F.pad(%s, (%s)%s)", x, s, value);
}

static bool is_even(const dl_windows *w) {
    return memcmp(w->pad_lo, w->pad_hi, sizeof(int64_t) * (size_t)w->n) == 0;
}

/* ", stride=2" where it is not all the default. */
static const char *option(torch_export *t, const char *name, int n, const int64_t *v,
                          int64_t otherwise) {
    for (int i = 0; i < n; i++)
        if (v[i] != otherwise) return dl_format(t->arena, ", %s=%s", name, dl_torch_ints(t, n, v));
    return "";
}

static const char *options_of(torch_export *t, const dl_windows *w, bool pads) {
    return dl_format(t->arena, "%s%s%s%s", option(t, "stride", w->n, w->stride, 1),
                     pads ? option(t, "padding", w->n, w->pad_lo, 0) : "",
                     option(t, "dilation", w->n, w->dilation, 1),
                     option(t, "groups", 1, &w->groups, 1));
}

torch_text dl_torch_conv(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    dl_windows w = dl_node_windows(n);
    const torch_layer *l = dl_torch_layer_of(t, n);
    const char *x = dl_torch_tensor(t, n, 0).s;
    if (!is_even(&w)) x = padded(t, x, &w, "");
    if (l) return dl_torch_atom(t, "%s(%s)", dl_torch_path(t, l->path), x);
    return dl_torch_atom(t, "F.conv%dd(%s, %s%s)", w.n, x, dl_torch_tensor(t, n, 1).s,
                         options_of(t, &w, is_even(&w)));
}

torch_text dl_torch_conv_transpose(torch_export *t, const dl_node *n, const char *word) {
    const torch_layer *l = dl_torch_layer_of(t, n);
    const char *x = dl_torch_tensor(t, n, 0).s;
    if (l) return dl_torch_atom(t, "%s(%s)", dl_torch_path(t, l->path), x);
    dl_windows w = dl_node_windows(n);
    const dl_type *from = &n->in[0]->type, *to = &n->out[0].type, *k = &n->in[1]->type;
    int64_t extra[3];
    for (int i = 0; i < w.n; i++) {
        extra[i] =
            to->axis[i + 2].size - ((from->axis[i + 2].size - 1) * w.stride[i] - 2 * w.pad_lo[i] +
                                    (k->axis[i + 2].size - 1) * w.dilation[i] + 1);
        int64_t most = w.stride[i] > w.dilation[i] ? w.stride[i] : w.dilation[i];
        if (extra[i] < 0 || extra[i] >= most) return dl_torch_refuse(t, n, word);
    }
    return dl_torch_atom(t, "F.conv_transpose%dd(%s, %s%s%s)", w.n, x, dl_torch_tensor(t, n, 1).s,
                         options_of(t, &w, true), option(t, "output_padding", w.n, extra, 0));
}

/* ---- pools ---- */

/* PyTorch pads by half a window at most. */
static bool pads_itself(const dl_windows *w, const int64_t *kernel) {
    bool fits = is_even(w);
    for (int i = 0; i < w->n; i++) fits &= w->pad_lo[i] <= kernel[i] / 2;
    return fits;
}

/* "kernel, stride=2, padding=1, ceil_mode=True" */
static const char *pool_options(torch_export *t, const dl_windows *w, const int64_t *kernel,
                                bool pads) {
    bool own = memcmp(kernel, w->stride, sizeof(int64_t) * (size_t)w->n) != 0;
    return dl_format(
        t->arena, "%s%s%s%s%s", dl_torch_ints(t, w->n, kernel),
        own ? dl_format(t->arena, ", stride=%s", dl_torch_ints(t, w->n, w->stride)) : "",
        pads ? option(t, "padding", w->n, w->pad_lo, 0) : "",
        option(t, "dilation", w->n, w->dilation, 1), w->ceil ? ", ceil_mode=True" : "");
}

torch_text dl_torch_max_pool(torch_export *t, const dl_node *n, const char *word) {
    dl_windows w = dl_node_windows(n);
    const int64_t *kernel = dl_node_attr(n, DL_ATTR_kernel)->ints;
    const char *x = dl_torch_tensor(t, n, 0).s;
    bool pads = pads_itself(&w, kernel);
    if (!pads && w.ceil) return dl_torch_refuse(t, n, word);
    if (!pads) x = padded(t, x, &w, ", value=float(\"-inf\")");
    return dl_torch_atom(t, "F.max_pool%dd(%s, %s)", w.n, x, pool_options(t, &w, kernel, pads));
}

torch_text dl_torch_avg_pool(torch_export *t, const dl_node *n, const char *word) {
    dl_windows w = dl_node_windows(n);
    const int64_t *kernel = dl_node_attr(n, DL_ATTR_kernel)->ints;
    bool pads = pads_itself(&w, kernel), counts = dl_node_int(n, DL_ATTR_counts_pad);
    const char *options = pool_options(t, &w, kernel, pads);
    if (!pads && w.ceil) return dl_torch_refuse(t, n, word);
    if (pads) {
        bool any = *option(t, "padding", w.n, w.pad_lo, 0) != 0;
        return dl_torch_atom(t, "F.avg_pool%dd(%s, %s%s)", w.n, dl_torch_tensor(t, n, 0).s, options,
                             any && !counts ? ", count_include_pad=False" : "");
    }
    const char *x = dl_torch_named(t, n, 0), *ones = dl_format(t->arena, "torch.ones_like(%s)", x);
    if (counts)
        return dl_torch_atom(t, "F.avg_pool%dd(%s, %s)", w.n, padded(t, x, &w, ""), options);
    return dl_torch_at(t, TORCH_PRODUCT, "F.avg_pool%dd(%s, %s) / F.avg_pool%dd(%s, %s)", w.n,
                       padded(t, x, &w, ""), options, w.n, padded(t, ones, &w, ""), options);
}

/* ---- other sizes ---- */

static const char *sizes_of(torch_export *t, const dl_node *n) {
    int64_t size[3];
    int spatial = n->out[0].type.rank - 2;
    for (int i = 0; i < spatial; i++) size[i] = n->out[0].type.axis[i + 2].size;
    return dl_torch_ints(t, spatial, size);
}

torch_text dl_torch_adaptive_avg_pool(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    return dl_torch_atom(t, "F.adaptive_avg_pool%dd(%s, %s)", n->out[0].type.rank - 2,
                         dl_torch_tensor(t, n, 0).s, sizes_of(t, n));
}

/* PyTorch takes the nearest element by a product in f32, which may round to the element before. */
static bool rounds_alike(int64_t from, int64_t to) {
    float scale = (float)from / (float)to;
    for (int64_t i = 0; i < to && to != from && to != 2 * from; i++)
        if ((int64_t)floorf((float)i * scale) != i * from / to) return false;
    return true;
}

torch_text dl_torch_upsample(torch_export *t, const dl_node *n, const char *word) {
    static const char *const linear[] = {"linear", "bilinear", "trilinear"};
    (void)word;
    const dl_type *x = &n->in[0]->type, *y = &n->out[0].type;
    const char *s = dl_torch_tensor(t, n, 0).s;
    if (strcmp(dl_node_name(n, DL_ATTR_mode), "linear") == 0)
        return dl_torch_atom(t, "F.interpolate(%s, size=%s, mode=\"%s\", align_corners=%s)", s,
                             sizes_of(t, n), linear[y->rank - 3],
                             dl_node_int(n, DL_ATTR_corners) ? "True" : "False");
    bool alike = true;
    for (int i = 2; i < y->rank; i++) alike &= rounds_alike(x->axis[i].size, y->axis[i].size);
    if (alike)
        return dl_torch_atom(t, "F.interpolate(%s, size=%s, mode=\"nearest\")", s, sizes_of(t, n));
    t->helps |= 1u << TORCH_HELP_ALONG;
    for (int i = 2; i < y->rank; i++)
        s = dl_format(t->arena, "along(%s, %d, %lld, stride=%lld, div=%lld)", s, i,
                      (long long)y->axis[i].size, (long long)x->axis[i].size,
                      (long long)y->axis[i].size);
    return dl_torch_atom(t, "%s", s);
}
