/* Patches of images as channels and back: pixel_shuffle, pixel_unshuffle, unfold and fold. Elements
 * are only moved; fold adds up those that overlap. */
#include "frontends/dl/builtin.h"

static dl_val make(dl_call *c, dl_op op, dl_val x, const dl_type *t) {
    if (x.kind != DL_V_TENSOR || !dl_check_count(c->E, c->where, t)) return dl_poison();
    return dl_tensor_op(c->E, c->where, op, 1, &x, 0, NULL, t);
}

/* The name of the axis of taps along spatial axis i: no model can have it. */
static const char *tap(int i) { return dl_internf("tap%d_", i); }

static dl_val refuse(dl_call *c, const char *name, int64_t size, int64_t parts) {
    return dl_bad(c->E, c->where, DL_DIAG_not_whole, "%s: %s=%lld cannot be divided by %lld",
                  c->what->name, name, (long long)size, (long long)parts);
}

static int64_t count(int k, const int64_t *sizes) {
    int64_t all = 1;
    for (int i = 0; i < k; i++) all *= sizes[i];
    return all;
}

/* [N, C, taps..., spatial...], the types on either side of a permutation that brings each axis of
 * taps next to its spatial axis. */
static void push_taps(dl_type *t, int k, const int64_t *taps) {
    for (int i = 0; i < k; i++) dl_type_push(t, tap(i), taps[i]);
}

/* Channels c r^k + i r + j become elements (h r + i, w r + j), as torch.nn.PixelShuffle has it. */
dl_val dl_fn_pixel_shuffle(dl_call *c) {
    dl_val x = c->arg[0];
    if (!dl_call_image(c, &x.t->type)) return dl_poison();
    dl_type to = x.t->type, parts = to, next = to;
    int k = to.rank - 2;
    int64_t taps[3];
    if (!dl_call_window(c, 1, k, 1, taps)) return dl_poison();
    const int64_t all = count(k, taps);
    if (to.axis[1].size % all) return refuse(c, to.axis[1].name, to.axis[1].size, all);
    to.axis[1].size /= all;
    parts.rank = next.rank = 2, parts.axis[1] = next.axis[1] = to.axis[1];
    push_taps(&parts, k, taps);
    for (int i = 0; i < k; i++) {
        dl_axis a = to.axis[2 + i];
        dl_type_push(&parts, a.name, a.size);
        dl_type_push(&next, a.name, a.size), dl_type_push(&next, tap(i), taps[i]);
        to.axis[2 + i].size *= taps[i];
    }
    x = make(c, DL_OP_reshape, x, &parts);
    return make(c, DL_OP_reshape, make(c, DL_OP_broadcast, x, &next), &to);
}

/* The inverse. */
dl_val dl_fn_pixel_unshuffle(dl_call *c) {
    dl_val x = c->arg[0];
    if (!dl_call_image(c, &x.t->type)) return dl_poison();
    dl_type to = x.t->type, parts = to, next = to;
    int k = to.rank - 2;
    int64_t taps[3];
    if (!dl_call_window(c, 1, k, 1, taps)) return dl_poison();
    parts.rank = next.rank = 2;
    push_taps(&next, k, taps);
    for (int i = 0; i < k; i++) {
        dl_axis a = to.axis[2 + i];
        if (a.size % taps[i]) return refuse(c, a.name, a.size, taps[i]);
        a.size /= taps[i], to.axis[2 + i] = a, to.axis[1].size *= taps[i];
        dl_type_push(&parts, a.name, a.size), dl_type_push(&parts, tap(i), taps[i]);
        dl_type_push(&next, a.name, a.size);
    }
    x = make(c, DL_OP_reshape, x, &parts);
    return make(c, DL_OP_reshape, make(c, DL_OP_broadcast, x, &next), &to);
}

/* ---- windows ---- */

typedef struct {
    int k;
    int64_t kernel[3], stride[3], pad[3], dilation[3], out[3]; /* out: places of the window */
} windows;

/* Reads kernel, stride, pad and dilation from argument `first` on, for spatial axes of these sizes.
 * False: reported. */
static bool read_windows(dl_call *c, int first, int k, const dl_axis *spatial, windows *w) {
    w->k = k;
    if (!dl_call_window(c, first, k, 1, w->kernel) ||
        !dl_call_window(c, first + 1, k, 1, w->stride) ||
        !dl_call_window(c, first + 2, k, 0, w->pad) ||
        !dl_call_window(c, first + 3, k, 1, w->dilation))
        return false;
    for (int i = 0; i < k; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t left = spatial[i].size + 2 * w->pad[i] - reach;
        if (left < 0) {
            dl_bad(c->E, c->where, DL_DIAG_bad_window,
                   "%s: a window of %lld elements does not fit into %s=%lld with padding %lld",
                   c->what->name, (long long)reach, spatial[i].name, (long long)spatial[i].size,
                   (long long)w->pad[i]);
            return false;
        }
        w->out[i] = left / w->stride[i] + 1;
    }
    return true;
}

/* The windows along spatial axis i: the axis counts places, and a new last axis counts taps. */
static dl_val spread(dl_call *c, dl_val x, const windows *w, int i) {
    if (x.kind != DL_V_TENSOR) return x;
    dl_type t = x.t->type;
    const char *along[] = {t.axis[2 + i].name, tap(i)};
    int64_t strides[] = {w->stride[i], w->dilation[i]};
    t.axis[2 + i].size = w->out[i];
    dl_type_push(&t, tap(i), w->kernel[i]);
    if (!dl_check_count(c->E, c->where, &t)) return dl_poison();
    dl_attr attrs[] = {dl_attr_ints(DL_ATTR_stride, 2, strides),
                       dl_attr_int(DL_ATTR_start, -w->pad[i]),
                       dl_attr_names(DL_ATTR_along, 2, along), dl_attr_int(DL_ATTR_div, 1),
                       dl_attr_name(DL_ATTR_outside, dl_outside_names[DL_OUT_ZERO])};
    return dl_tensor_op(c->E, c->where, DL_OP_affine, 1, &x, 5, attrs, &t);
}

/* torch.nn.Unfold: [N, C, spatial...] to [N, C kernel, L], each window a column of channels. */
dl_val dl_fn_unfold(dl_call *c) {
    dl_val x = c->arg[0];
    if (!dl_call_image(c, &x.t->type)) return dl_poison();
    dl_type t = x.t->type, parts = t, to = t;
    windows w;
    if (!read_windows(c, 1, t.rank - 2, t.axis + 2, &w)) return dl_poison();
    for (int i = 0; i < w.k; i++) x = spread(c, x, &w, i);
    parts.rank = to.rank = 2, to.axis[1].size *= count(w.k, w.kernel);
    push_taps(&parts, w.k, w.kernel);
    for (int i = 0; i < w.k; i++) dl_type_push(&parts, t.axis[2 + i].name, w.out[i]);
    if (dl_type_axis(&to, dl_intern("L")) >= 0)
        return dl_bad(c->E, c->where, DL_DIAG_duplicate_axis,
                      "unfold makes an axis L, but its operand is %s", dl_type_text(&t));
    dl_type_push(&to, dl_intern("L"), count(w.k, w.out));
    return make(c, DL_OP_reshape, make(c, DL_OP_broadcast, x, &parts), &to);
}

/* The sum over the taps along spatial axis i of [N, C, taps of i.., spatial...], each moved to its
 * place in an axis of `size` elements: with stride - 1 zeros after each element, tap j begins at
 * j dilation - pad. */
static dl_val add_taps(dl_call *c, dl_val x, const windows *w, int i, dl_axis axis) {
    dl_val sum = dl_poison();
    for (int64_t j = 0; j < w->kernel[i]; j++) {
        dl_val part = dl_tensor_at(c->E, c->where, x, tap(i), j);
        if (part.kind != DL_V_TENSOR) return part;
        dl_type t = part.t->type;
        int at = dl_type_axis(&t, axis.name);
        const char *gap = tap(3);
        dl_attr insert[] = {dl_attr_name(DL_ATTR_axis, gap), dl_attr_int(DL_ATTR_index, at + 1)};
        part = dl_tensor_op(c->E, c->where, DL_OP_unsqueeze, 1, &part, 2, insert, NULL);
        int64_t none = 0, gaps = w->stride[i] - 1;
        dl_attr zeros[] = {dl_attr_name(DL_ATTR_axis, gap), dl_attr_ints(DL_ATTR_pad_lo, 1, &none),
                           dl_attr_ints(DL_ATTR_pad_hi, 1, &gaps)};
        part = dl_tensor_op(c->E, c->where, DL_OP_pad, 1, &part, 3, zeros, NULL);
        t.axis[at].size *= w->stride[i];
        part = make(c, DL_OP_reshape, part, &t);
        int64_t step = 1;
        t.axis[at].size = axis.size;
        dl_attr move[] = {dl_attr_ints(DL_ATTR_stride, 1, &step),
                          dl_attr_int(DL_ATTR_start, w->pad[i] - j * w->dilation[i]),
                          dl_attr_names(DL_ATTR_along, 1, &axis.name), dl_attr_int(DL_ATTR_div, 1),
                          dl_attr_name(DL_ATTR_outside, dl_outside_names[DL_OUT_ZERO])};
        part = dl_tensor_op(c->E, c->where, DL_OP_affine, 1, &part, 5, move, &t);
        sum = sum.kind == DL_V_POISON ? part : dl_call_elem(c, DL_OP_add, sum, part);
    }
    return sum;
}

/* torch.nn.Fold, the adjoint of unfold: [N, C kernel, L] to [N, C, spatial...] of argument 1's
 * sizes, which are axes W; H and W; or D, H and W. */
dl_val dl_fn_fold(dl_call *c) {
    static const char *const names[] = {"D", "H", "W"};
    dl_val x = dl_tensor_pin(c->E, c->where, c->arg[0]); /* sums are f32 */
    int k = c->arg[1].kind == DL_V_LIST ? c->arg[1].list->items.n : 1;
    if (x.t->type.rank != 3 || k < 1 || k > 3)
        return dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
                      "fold takes [N, C, L] and one to three sizes, not %s and %d",
                      dl_type_text(&x.t->type), k);
    dl_type to = x.t->type, parts = to;
    int64_t size[3];
    windows w;
    if (!dl_call_window(c, 1, k, 1, size)) return dl_poison();
    to.rank = 2;
    for (int i = 0; i < k; i++) dl_type_push(&to, dl_intern(names[3 - k + i]), size[i]);
    if (!read_windows(c, 2, k, to.axis + 2, &w)) return dl_poison();
    int64_t taps = count(k, w.kernel), places = count(k, w.out);
    if (to.axis[1].size % taps) return refuse(c, to.axis[1].name, to.axis[1].size, taps);
    if (parts.axis[2].size != places)
        return dl_bad(c->E, c->where, DL_DIAG_axis_mismatch,
                      "fold: there are %lld places of the window, but %s=%lld", (long long)places,
                      parts.axis[2].name, (long long)parts.axis[2].size);
    to.axis[1].size /= taps;
    parts.rank = 2, parts.axis[1] = to.axis[1];
    push_taps(&parts, k, w.kernel);
    for (int i = 0; i < k; i++) dl_type_push(&parts, to.axis[2 + i].name, w.out[i]);
    x = make(c, DL_OP_reshape, x, &parts);
    for (int i = 0; i < k && x.kind == DL_V_TENSOR; i++) x = add_taps(c, x, &w, i, to.axis[2 + i]);
    return x;
}
