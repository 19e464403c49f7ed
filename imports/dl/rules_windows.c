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
    bool elsewhere = false; /* an axis of space has the channels' name */
    for (int a = 0; a < x->n; a++) elsewhere = elsewhere || (a != 1 && !strcmp(names[a], "C"));
    if (!elsewhere && (!strchr("DHW", *names[1]) || names[1][1])) return;
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
    bool back = *c->detail || dl_foreign_int(c->n, "transposed", 0);
    const dl_foreign_tensor *w = dl_foreign_operand(c->n, "weight"),
                            *b = dl_foreign_operand(c->n, "bias");
    dl_in_value *x = dl_operand(c, "input");
    if (!x || !w || x->rank != w->rank) return false;
    const char *label = dl_layer_label(c, w, b);
    int n = w->rank - 2;
    int64_t stride[3], pad[3], dilation[3], more[3], groups = dl_foreign_int(c->n, "groups", 1);
    if (n < 1 || n > 3) return false;
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
        s = dl_say(c, STMT_PLAIN, P_POSTFIX, "%s(%v, kernel=%v", back ? "conv_transpose" : "conv",
                   x, kernel);
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

/* Whether the places of maxima, a pool's second result, are read. */
static bool reads_places(const dl_in_ctx *c) {
    return c->n->n_results != 1 && c->w->last_use[c->n->results[1]->id] >= 0;
}

bool dl_in_pool(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "self");
    bool most = c->detail[0] == 'm';
    const char *digit = strpbrk(c->n->op, "123");
    int n = digit ? *digit - '0' : 0;
    int64_t kernel[3], stride[3], pad[3], dilation[3];
    if (!x || x->rank != n + 2 || reads_places(c) || dl_foreign_find(c->n, "divisor_override"))
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

/* detail: the function over whole axes, and the one over parts of them */
bool dl_in_adaptive_pool(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "self");
    const char *digit = strpbrk(c->n->op, "123");
    int n = digit ? *digit - '0' : 0;
    int64_t size[3];
    const char *parts = strchr(c->detail, ' ') + 1;
    if (!x || x->rank != n + 2 || reads_places(c)) return false;
    for (int i = 0; i < n; i++) size[i] = c->n->results[0]->shape[2 + i];
    with_channels(c, x);
    if (all_are(n, size, 1)) {
        const char *whole = dl_strndup(c->w->arena, c->detail, strcspn(c->detail, " "));
        int s = dl_call_function(c, whole, x, ", over=[");
        for (int i = 0; i < n; i++) dl_say_more(c, "%s%s", i ? ", " : "", x->axis[2 + i].name);
        dl_say_more(c, "]");
        dl_in_value *made = dl_copy_value(c, x);
        made->stmt = s, made->n = 2, made->param = -1, made->is_view = false;
        for (int i = 0; i < n; i++) made->dim[2 + i].n = 0;
        dl_set(c, 0, made);
        return true;
    }
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> %s(", x, parts);
    dl_say_window(c, "size", "", n, size);
    dl_say_more(c, ")");
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

/* detail: the mode; "aa" where a smaller image is smoothed; "exact" where elements are copied that
 * are not always the language's */
bool dl_in_upsample(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "input");
    if (!x) x = dl_operand(c, "self");
    if (!x || x->rank < 3 || c->n->n_results != 1) return false;
    const dl_foreign_tensor *t = c->n->results[0];
    const dl_foreign_arg *factors = dl_foreign_find(c->n, "scale_factors");
    const char *mode = dl_strndup(c->w->arena, c->detail, strcspn(c->detail, " ")),
               *more = c->detail + strlen(mode);
    int n = x->rank - 2;
    int64_t size[3], times[3];
    bool whole = true, nearest = !strcmp(mode, "nearest");
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
    if (!whole && !strcmp(more, " exact")) return false;
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> upsample(", x);
    if (whole)
        dl_say_window(c, "factor", "scale_factor=", n, times);
    else
        dl_say_window(c, "size", "size=", n, size);
    if (!nearest) dl_say_more(c, ", mode=\"%s\"", mode);
    if (dl_foreign_int(c->n, "align_corners", 0)) dl_say_more(c, ", align_corners=true");
    if (!strcmp(more, " aa")) dl_say_more(c, ", antialias=true");
    dl_say_more(c, ")");
    dl_set(c, 0, dl_like(c, s, x, t));
    return true;
}

/* ---- patches ---- */

/* Channels become space, or space channels: the function of the detail. */
bool dl_in_shuffle(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    int64_t by = dl_foreign_int(c->n, *c->detail == 'u' ? "downscale_factor" : "upscale_factor", 1);
    if (!x || x->rank != 4) return false;
    with_channels(c, x);
    const char *function = *c->detail == 'u' ? "pixel_unshuffle" : "pixel_shuffle";
    int s = dl_call_function(c, function, x, ", %i", "factor", by);
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

static void say_patches(dl_in_ctx *c) {
    int64_t v[3];
    window(c->n, "kernel_size", 2, 1, v), dl_say_window(c, "kernel", ", ", 2, v);
    window(c->n, "stride", 2, 1, v), say_window(c, "stride", 2, v, 1);
    window(c->n, "padding", 2, 0, v), say_window(c, "pad", 2, v, 0);
    window(c->n, "dilation", 2, 1, v), say_window(c, "dilation", 2, v, 1);
}

/* [N, C, H, W] to [N, (C kernel), L] */
bool dl_in_unfold_patches(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    const dl_foreign_tensor *t = c->n->results[0];
    if (!x || x->rank != 4 || c->n->n_results != 1 || t->rank != 3) return false;
    with_channels(c, x);
    for (int a = 0; a < x->n; a++)
        if (!strcmp(x->axis[a].name, "L")) return false;
    int s = dl_call_function(c, "unfold", x, "");
    say_patches(c);
    dl_in_value *y = dl_copy_value(c, x);
    y->n = y->rank = 3, y->axis[2].name = "L";
    y = dl_like(c, s, y, t);
    dl_set(c, 0, y);
    return true;
}

/* [N, (C kernel), L] to [N, C, H, W] */
bool dl_in_fold_patches(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    const dl_foreign_tensor *t = c->n->results[0];
    if (!x || x->rank != 3 || c->n->n_results != 1 || t->rank != 4) return false;
    with_channels(c, x);
    int s =
        dl_call_function(c, "fold", x, ", [%i, %i]", "height", t->shape[2], "width", t->shape[3]);
    say_patches(c);
    dl_in_value *y = dl_new_value(c, s, t);
    y->axis[0] = x->axis[0], y->dim[0] = x->dim[0];
    y->axis[1].name = x->axis[1].name, y->axis[2].name = "H", y->axis[3].name = "W";
    dl_set(c, 0, y);
    return true;
}

/* ---- images at computed places ---- */

bool dl_in_grid_sample(dl_in_ctx *c) {
    static const char *const modes[] = {"", ", mode=\"nearest\""}, *const pads[] = {
                                                                       "", ", padding=\"border\"",
                                                                       ", padding=\"reflection\""};
    dl_in_value *x = dl_operand(c, "input"), *given = dl_operand(c, "grid");
    int64_t mode = dl_foreign_int(c->n, "interpolation_mode", 0),
            pad = dl_foreign_int(c->n, "padding_mode", 0);
    if (!x || !given || x->rank != given->rank || x->rank < 4 || x->rank > 5 || mode < 0 ||
        mode > 1 || pad < 0 || pad > 2)
        return false;
    with_channels(c, x);
    dl_in_value *grid = dl_copy_value(c, given), both = *x;
    dl_ordered(c, grid, true);
    const char *names[DL_FOREIGN_RANK];
    int last = x->n - 1;
    both.n = x->n, names[0] = x->axis[0].name;
    for (int a = 1; a < last; a++) names[a] = x->axis[a + 1].name;
    names[last] = dl_fresh_name(&both, last, DL_FOREIGN_RANK);
    dl_rename(c, grid, names);
    int s =
        dl_say(c, STMT_PLAIN, P_POSTFIX, "grid_sample(%v, %v%s%s%s)", x, grid, modes[mode],
               pads[pad], dl_foreign_int(c->n, "align_corners", 0) ? ", align_corners=true" : "");
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

/* Numbers from -1 to 1 along dimension d of n: at the elements' middles, or from edge to edge. */
static dl_in_value *line(dl_in_ctx *c, int n, int d, int64_t size, bool corners, const char *name) {
    double end = corners ? 1 : 1 - 1 / (double)size;
    dl_foreign_tensor t = {.rank = n, .class = DL_FOREIGN_FLOAT};
    for (int k = 0; k < n; k++) t.shape[k] = k == d ? size : 1;
    int s = dl_say(c, STMT_PLAIN, P_PIPE, "linspace(%r, %r, %i) as [%s]", "from", -end, "to", end,
                   "size", size, name);
    dl_in_value *v = dl_new_value(c, s, &t);
    v->axis[0] = v->axis[d], v->axis[0].name = name, v->n = 1;
    for (int k = 0; k < n; k++) v->dim[k].n = k == d;
    return v;
}

/* theta [N, 2, 3] times (x, y, 1) of each place: [N, H, W, 2] */
bool dl_in_affine_grid(dl_in_ctx *c) {
    dl_in_value *given = dl_operand(c, "theta"), *sum = NULL;
    const dl_foreign_tensor *t = c->n->results[0];
    bool corners = dl_foreign_int(c->n, "align_corners", 0);
    if (!given || given->rank != 3 || t->rank != 4 || c->n->n_results != 1) return false;
    dl_in_value *theta = dl_copy_value(c, given);
    dl_ordered(c, theta, true);
    dl_rename(c, theta, (const char *[]){theta->axis[0].name, "P", "K"});
    for (int k = 0; k < 3; k++) { /* dimension 2 of the places is x, 1 is y */
        dl_in_value *part = dl_copy_value(c, theta), *of = part;
        part->stmt =
            dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[K=%i]", theta, P_POSTFIX, "column", (int64_t)k);
        part->n = 2, part->rank = 4, part->dim[3] = theta->dim[1];
        part->dim[1].n = part->dim[2].n = 0, part->param = -1;
        if (k < 2) {
            int d = 2 - k;
            dl_in_value *at = line(c, 4, d, t->shape[d], corners, d == 1 ? "H" : "W");
            of = dl_match(c, part, at);
            of->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %p", part, P_PRODUCT, at, P_UNARY);
        }
        dl_in_value *so_far = sum;
        if (sum) sum = dl_match(c, so_far, of);
        if (sum)
            sum->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", so_far, P_SUM, of, P_PRODUCT);
        else
            sum = of;
    }
    return dl_done(c, sum, sum->stmt);
}
