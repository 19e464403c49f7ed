/* Pooling, resizing, and other regular selections of elements: no parameters, one op each. */
#include <math.h>

#include "frontends/dl/resize.h"

/* Checks for an operand [N, C, spatial...] of floats. */
static bool want_image(dl_call *c, dl_val *x) {
    if (!dl_call_float(c, x)) return false;
    return dl_call_image(c, &x->t->type);
}

/* Builds a pool with the window in arguments 1 to 3 (default stride: the kernel), the extra
 * attribute `own`, and ceil_mode, which is argument 5. */
static dl_val pool(dl_call *c, dl_op op, dl_val x, const int64_t dilation[3], dl_attr own) {
    int64_t kernel[3], stride[3], lo[3], hi[3];
    const dl_type *t = &x.t->type;
    int spatial = t->rank - 2;
    if (!dl_call_window(c, 1, spatial, 1, kernel)) return dl_poison();
    memcpy(stride, kernel, sizeof stride);
    if (c->given[2] && !dl_call_window(c, 2, spatial, 1, stride)) return dl_poison();
    if (!dl_call_padding(c, 3, t, kernel, stride, dilation, lo, hi)) return dl_poison();
    dl_attr attrs[] = {dl_attr_ints(DL_ATTR_stride, spatial, stride),
                       dl_attr_ints(DL_ATTR_pad_lo, spatial, lo),
                       dl_attr_ints(DL_ATTR_pad_hi, spatial, hi),
                       dl_attr_ints(DL_ATTR_kernel, spatial, kernel),
                       own,
                       dl_attr_int(DL_ATTR_ceil, 1)};
    return dl_tensor_op(c->E, c->where, op, 1, &x, 5 + c->arg[5].b, attrs, NULL);
}

dl_val dl_layer_max_pool(dl_call *c) {
    dl_val x = c->arg[0];
    int64_t dilation[3];
    if (!want_image(c, &x) || !dl_call_window(c, 4, x.t->type.rank - 2, 1, dilation))
        return dl_poison();
    return pool(c, DL_OP_max_pool, x, dilation,
                dl_attr_ints(DL_ATTR_dilation, x.t->type.rank - 2, dilation));
}

dl_val dl_layer_avg_pool(dl_call *c) {
    dl_val x = c->arg[0];
    const int64_t near[] = {1, 1, 1};
    if (!want_image(c, &x)) return dl_poison();
    return pool(c, DL_OP_avg_pool, x, near, dl_attr_int(DL_ATTR_counts_pad, c->arg[4].b));
}

dl_val dl_layer_adaptive_avg_pool(dl_call *c) {
    dl_val x = c->arg[0];
    int64_t size[3];
    if (!want_image(c, &x) || !dl_call_window(c, 1, x.t->type.rank - 2, 1, size))
        return dl_poison();
    dl_attr attr = dl_attr_ints(DL_ATTR_size, x.t->type.rank - 2, size);
    return dl_tensor_op(c->E, c->where, DL_OP_adaptive_avg_pool, 1, &x, 1, &attr, NULL);
}

/* The op's name of a mode: PyTorch's linear, bilinear and trilinear are one, by the number of axes.
 * NULL: reported. */
static const char *resize_mode(dl_call *c, int i, int spatial) {
    static const char *const linear[] = {"linear", "bilinear", "trilinear"};
    const char *mode = c->given[i] ? c->arg[i].s : "nearest";
    if (strcmp(mode, "nearest") == 0 || strcmp(mode, "linear") == 0) return mode;
    if (strcmp(mode, "bicubic") == 0 && spatial == 2) return mode;
    if (strcmp(mode, linear[spatial - 1]) == 0) return linear[0];
    dl_bad(c->E, c->arg[i].origin, DL_DIAG_bad_argument,
           "%s over %d ax%s is \"nearest\" or \"%s\", not \"%.60s\"", c->what->name, spatial,
           spatial == 1 ? "is" : "es", linear[spatial - 1], mode);
    return NULL;
}

/* Each axis' size times the factor of argument i, which may be a fraction where the result is
 * whole. False: reported. */
static bool scaled_sizes(dl_call *c, int i, const dl_type *t, int64_t size[3]) {
    for (int k = 0; k < t->rank - 2; k++) {
        dl_axis a = t->axis[2 + k];
        dl_val one = dl_call_entry(c, i, t->rank - 2, k);
        int64_t whole = 0;
        if (one.kind != DL_V_FLOAT &&
            !dl_val_count(c->E, one, 1, "upsample: 'scale_factor'", &whole))
            return false;
        double factor = one.kind == DL_V_FLOAT ? one.f : (double)whole,
               to = factor * (double)a.size;
        if (to > INT32_MAX) {
            dl_bad(c->E, one.origin, DL_DIAG_too_large, "upsample: %s=%lld becomes too large",
                   a.name, (long long)a.size);
            return false;
        }
        if (!(to >= 0.5 && fabs(to - rint(to)) <= 1e-9 * to)) {
            dl_bad(c->E, one.origin, DL_DIAG_not_whole,
                   "upsample: %s=%lld times %g is %g, which is no size", a.name, (long long)a.size,
                   factor, to);
            dl_help(c->E, "say what it becomes: size=[...], a whole number for each axis");
            return false;
        }
        size[k] = (int64_t)rint(to);
    }
    return true;
}

dl_val dl_layer_upsample(dl_call *c) {
    dl_val x = c->arg[0];
    int64_t size[3];
    if (!want_image(c, &x)) return dl_poison();
    const dl_type *t = &x.t->type;
    int spatial = t->rank - 2;
    if (c->given[1] == c->given[2])
        return dl_bad(c->E, c->where,
                      c->given[1] ? DL_DIAG_too_many_arguments : DL_DIAG_missing_argument,
                      "upsample takes either a size or a scale_factor");
    if (!(c->given[1] ? dl_call_window(c, 1, spatial, 1, size) : scaled_sizes(c, 2, t, size)))
        return dl_poison();
    const char *mode = resize_mode(c, 3, spatial);
    if (!mode) return dl_poison();
    dl_resizing how = {strcmp(mode, "bicubic") == 0, c->arg[5].b, c->arg[4].b};
    if (how.smooth && strcmp(mode, "nearest") == 0)
        return dl_bad(
            c->E, c->where, DL_DIAG_bad_argument,
            "upsample with antialias=true is \"linear\", \"bilinear\" or \"bicubic\", not "
            "\"nearest\"");
    if (how.cubic || how.smooth) return dl_resize(c, x, size, how);
    dl_attr attrs[] = {dl_attr_ints(DL_ATTR_size, spatial, size), dl_attr_name(DL_ATTR_mode, mode),
                       dl_attr_int(DL_ATTR_corners, c->arg[4].b)};
    return dl_tensor_op(c->E, c->where, DL_OP_upsample, 1, &x, 3, attrs, NULL);
}

/* ---- along named axes ---- */

/* Reads x along one axis by another rule; its type changes only in the size. */
static dl_val read_along(dl_call *c, dl_val x, const char *axis, int64_t size, int64_t stride,
                         int64_t start, dl_outside outside) {
    dl_type t = x.t->type;
    t.axis[dl_type_axis(&t, axis)].size = size;
    if (!dl_check_count(c->E, c->where, &t)) return dl_poison();
    dl_attr attrs[] = {dl_attr_ints(DL_ATTR_stride, 1, &stride), dl_attr_int(DL_ATTR_start, start),
                       dl_attr_names(DL_ATTR_along, 1, &axis), dl_attr_int(DL_ATTR_div, 1),
                       dl_attr_name(DL_ATTR_outside, dl_outside_names[outside])};
    return dl_tensor_op(c->E, c->where, DL_OP_affine, 1, &x, 5, attrs, &t);
}

static dl_axis axis_named(dl_val x, const char *name) {
    return x.t->type.axis[dl_type_axis(&x.t->type, name)];
}

/* PyTorch's modes; -1: reported. */
static int pad_mode(dl_call *c, int i) {
    static const struct {
        const char *name;
        dl_outside outside;
    } modes[] = {{"constant", DL_OUT_ZERO},
                 {"zeros", DL_OUT_ZERO},
                 {"circular", DL_OUT_WRAP},
                 {"reflect", DL_OUT_REFLECT},
                 {"replicate", DL_OUT_EDGE}};
    if (!c->given[i]) return DL_OUT_ZERO;
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++)
        if (strcmp(c->arg[i].s, modes[k].name) == 0) return (int)modes[k].outside;
    dl_bad(
        c->E, c->arg[i].origin, DL_DIAG_bad_argument,
        "pad: the mode is \"constant\", \"circular\", \"reflect\" or \"replicate\", not \"%.60s\"",
        c->arg[i].s);
    return -1;
}

/* Checks that the padding modes that repeat elements find enough of them along an axis, as in
 * PyTorch. */
static bool check_pad(dl_call *c, dl_axis a, int mode, int64_t lo, int64_t hi) {
    int64_t most = mode == DL_OUT_WRAP ? a.size : mode == DL_OUT_REFLECT ? a.size - 1 : INT32_MAX;
    if (mode != DL_OUT_ZERO && a.size < 1) most = 0;
    if ((lo <= most && hi <= most) || mode == DL_OUT_ZERO) return true;
    dl_bad(c->E, c->where, DL_DIAG_bad_window,
           "pad: %s=%lld has %lld elements to repeat on either side, not %lld", a.name,
           (long long)a.size, (long long)(most < 0 ? 0 : most), (long long)(lo > hi ? lo : hi));
    dl_note_tensor(c->E, c->arg[0]);
    return false;
}

/* pad(x, n or [before, after], mode="circular", over=[H, W]). */
dl_val dl_fn_pad(dl_call *c) {
    dl_val x = c->arg[0];
    int n, mode = pad_mode(c, 2);
    int64_t by[3];
    const char *names[DL_MAX_RANK];
    if (mode < 0 || !dl_call_axes_of(c, 3, x, &n, names) || !dl_call_window(c, 1, 2, 0, by))
        return dl_poison();
    for (int i = 0; i < n && x.kind == DL_V_TENSOR; i++) {
        dl_axis a = axis_named(x, names[i]);
        if (!check_pad(c, a, mode, by[0], by[1])) return dl_poison();
        x = read_along(c, x, a.name, a.size + by[0] + by[1], 1, -by[0], (dl_outside)mode);
    }
    return x;
}

dl_val dl_fn_roll(dl_call *c) {
    dl_val x = c->arg[0];
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 2, x, &n, names)) return dl_poison();
    if (c->arg[1].kind == DL_V_LIST && c->arg[1].list->items.n != n)
        return dl_bad(c->E, c->arg[1].origin, DL_DIAG_bad_argument, "roll: %d shifts for %d axes",
                      c->arg[1].list->items.n, n);
    for (int i = 0; i < n && x.kind == DL_V_TENSOR; i++) {
        int64_t by;
        dl_val shift = dl_call_entry(c, 1, n, i);
        if (shift.kind == DL_V_POISON ||
            !dl_val_count(c->E, shift, INT64_MIN, "roll: 'shifts'", &by))
            return dl_poison();
        dl_axis a = axis_named(x, names[i]);
        if (a.size) x = read_along(c, x, a.name, a.size, 1, -(by % a.size), DL_OUT_WRAP);
    }
    return x;
}

dl_val dl_fn_flip(dl_call *c) {
    dl_val x = c->arg[0];
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 1, x, &n, names)) return dl_poison();
    for (int i = 0; i < n && x.kind == DL_V_TENSOR; i++) {
        dl_axis a = axis_named(x, names[i]);
        x = read_along(c, x, a.name, a.size, -1, a.size - 1, DL_OUT_ZERO);
    }
    return x;
}
