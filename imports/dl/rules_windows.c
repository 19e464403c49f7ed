/* Rules of convolutions, pools and resizing. */
#include "imports/dl/rules.h"

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

/* Images: the second axis holds the channels and is none of space, by its name. */
static void with_channels(dl_in_ctx *c, dl_in_value *x) {
    const char *names[DL_FOREIGN_RANK];
    dl_ordered(c, x, true);
    if (x->n < 3) return;
    for (int a = 0; a < x->n; a++) names[a] = x->axis[a].name;
    if (!strchr("DHW", *names[1]) || names[1][1]) return;
    dl_in_value others = *x;
    others.axis[others.n++ % DL_FOREIGN_RANK].name = "C";
    for (int a = 0; a < x->n; a++) {
        if (!strcmp(names[a], "C")) names[a] = dl_fresh_name(&others, a, DL_FOREIGN_RANK);
    }
    names[1] = "C";
    dl_rename(c, x, names);
}

/* y + bias, along the channels */
static bool add_channels(dl_in_ctx *c, dl_in_value *y, dl_in_value *bias) {
    dl_in_value *b = dl_copy_value(c, bias);
    while (b->rank + 1 < y->rank) b->dim[b->rank++].n = 0;
    dl_in_value *made = dl_match(c, y, b);
    return dl_done(c, made, dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", y, P_SUM, b, P_PRODUCT));
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
    if (n < 1 || n > 3 || (!label && back)) return false;
    const char *word = dl_foreign_text(c->n, "padding", NULL);
    window(c->n, "stride", n, 1, stride), window(c->n, "padding", n, 0, pad);
    window(c->n, "dilation", n, 1, dilation), window(c->n, "output_padding", n, 0, more);
    with_channels(c, x);
    int64_t channels = back ? w->shape[1] * groups : w->shape[0];
    int s;
    if (label) {
        s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> %s(%i", x, back ? "conv_transpose" : "conv",
                   "channels", channels);
        dl_say_window(c, "kernel", ", ", n, w->shape + 2);
    } else {
        dl_in_value *kernel = dl_value_of(c, w);
        dl_ordered(c, kernel, true);
        s = dl_say(c, STMT_PLAIN, P_POSTFIX, "conv(%v, kernel=%v", x, kernel);
    }
    say_window(c, "stride", n, stride, 1);
    if (word)
        dl_say_more(c, ", pad=%s", word);
    else
        say_window(c, "pad", n, pad, 0);
    say_window(c, "out_pad", n, more, 0);
    say_window(c, "dilation", n, dilation, 1);
    dl_say_option(c, "groups", dl_in_whole(c->w, groups), "1");
    dl_in_value *y = dl_like(c, s, x, c->n->results[0]);
    if (label)
        dl_say_more(c, "%s) @%l", b ? "" : ", bias=false", label);
    else
        dl_say_more(c, ")");
    if (!label && b) return add_channels(c, y, dl_value_of(c, b));
    dl_set(c, 0, y);
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
    with_channels(c, x);
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
    with_channels(c, x);
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
    with_channels(c, x);
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
