/* Layers: built-ins that make parameters or depend on the phase. */
#include <math.h>

#include "frontends/dl/builtin.h"
#include "ir/relation.h"

static const char *axis_or(const char *name, const char *taken, const char *other) {
    return name == dl_intern(taken) ? dl_intern(other) : name;
}

/* PyTorch's default for convolutions and linear layers: kaiming_uniform with a = sqrt(5), which is
 * uniform within 1 / sqrt(fan_in), for weight and bias alike. */
static dl_init default_init(double fan_in) {
    double bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
    return (dl_init){DL_INIT_UNIFORM, -bound, bound};
}

dl_dtype dl_param_type(dl_val x) {
    return x.kind == DL_V_TENSOR && x.t->type.dtype == DL_F64 ? DL_F64 : DL_F32;
}

static dl_val add_bias(dl_call *c, int i, dl_val y, const char *axis, int64_t size, double fan_in,
                       double fan_out) {
    if (c->arg[i].kind == DL_V_BOOL && !c->arg[i].b) return y;
    dl_type t = dl_scalar(dl_param_type(c->arg[0]));
    dl_type_push(&t, axis, size);
    dl_val b = dl_make_param(c, "bias", t, default_init(fan_in), fan_in, fan_out);
    dl_val in[] = {y, b};
    return dl_tensor_op(c->E, c->where, DL_OP_add, 2, in, 0, NULL, NULL);
}

/* Weight [first, second, k...]; the fans follow PyTorch: fan_in counts the second axis. */
static dl_val conv_weight(dl_call *c, const dl_type *x, int64_t first, int64_t second,
                          const int64_t *kernel, double *fan_in, double *fan_out) {
    dl_type t = dl_scalar(dl_param_type(c->arg[0]));
    double taps = 1;
    dl_type_push(&t, "O", first);
    dl_type_push(&t, axis_or(x->axis[1].name, "O", "I"), second);
    for (int i = 2; i < x->rank; i++) {
        dl_type_push(&t, dl_internf("k%s", x->axis[i].name), kernel[i - 2]);
        taps *= (double)kernel[i - 2];
    }
    *fan_in = (double)second * taps, *fan_out = (double)first * taps;
    return dl_make_param(c, "weight", t, default_init(*fan_in), *fan_in, *fan_out);
}

/* Reads the groups of argument i: they must divide the input and output channels. */
static bool groups_of(dl_call *c, int i, const dl_type *t, int64_t out, int64_t *groups) {
    *groups = c->arg[i].i;
    if (*groups < 1 || *groups > INT32_MAX) {
        dl_bad(c->E, c->arg[i].origin, DL_DIAG_bad_argument,
               "%s: 'groups' must be 1 or more%s, not %lld", c->what->name,
               *groups > 1 ? " and not that large" : "", (long long)*groups);
        return false;
    }
    dl_axis in = t->axis[1];
    if (in.size % *groups == 0 && out % *groups == 0) return true;
    dl_bad(c->E, c->given[i] ? c->arg[i].origin : c->where, DL_DIAG_bad_argument,
           "%s: %lld groups do not divide %s=%lld and %lld channels", c->what->name,
           (long long)*groups, in.name, (long long)in.size, (long long)out);
    dl_note_tensor(c->E, c->arg[0]);
    dl_help(c->E, "the numbers of channels, in and out, are multiples of the groups");
    return false;
}

/* The attributes shared by all windowed ops; default values are omitted. Returns their number. */
static int window_attrs(dl_attr attrs[6], int spatial, const int64_t *stride, const int64_t *lo,
                        const int64_t *hi, const int64_t *dilation, int64_t groups) {
    bool spread = false;
    int n = 0;
    for (int i = 0; i < spatial; i++) spread |= dilation[i] != 1;
    attrs[n++] = dl_attr_ints(DL_ATTR_stride, spatial, stride);
    attrs[n++] = dl_attr_ints(DL_ATTR_pad_lo, spatial, lo);
    attrs[n++] = dl_attr_ints(DL_ATTR_pad_hi, spatial, hi);
    if (spread) attrs[n++] = dl_attr_ints(DL_ATTR_dilation, spatial, dilation);
    if (groups != 1) attrs[n++] = dl_attr_int(DL_ATTR_groups, groups);
    return n;
}

/* Refuses a kernel that is a tensor, argument 2. */
static bool refuse_kernel(dl_call *c, const char *why, const char *help) {
    dl_bad(c->E, c->ast[2]->span, DL_DIAG_axis_mismatch, "%s: the kernel is %s, %s", c->what->name,
           dl_type_text(&c->arg[2].t->type), why);
    dl_note_tensor(c->E, c->arg[2]);
    dl_help(c->E, "%s", help);
    return false;
}

/* Where the arguments of a convolution stand (builtins.def), and its kernel's form. */
typedef struct {
    int bias, groups;
    bool transposed;
    const char *form;
} conv_form;
static const conv_form forward = {
    5, 7, false, "it is [out, in / groups, window...], one window size for each spatial axis"};
static const conv_form transposed = {
    6, 8, true, "it is [in, out / groups, window...], one window size for each spatial axis"};

/* A kernel that is a tensor for images of type t: its channels out and window sizes. False:
 * reported. */
static bool read_kernel(dl_call *c, const conv_form *f, const dl_type *t, int64_t *out,
                        int64_t kernel[3]) {
    const dl_type *w = &c->arg[2].t->type;
    const char *form = f->form;
    if (w->rank == t->rank + 1 && w->axis[0].name == t->axis[0].name)
        return refuse_kernel(c, "with the axis of samples: all samples have one kernel", form);
    if (w->rank != t->rank)
        return refuse_kernel(
            c, dl_format(c->E->arena, "but the input has %d spatial axes", t->rank - 2), form);
    if (!dl_dtype_is_float(w->dtype))
        return refuse_kernel(c, "whose elements are not floats", form);
    *out = w->axis[0].size;
    if (f->transposed && __builtin_mul_overflow(w->axis[1].size, c->arg[f->groups].i, out))
        return refuse_kernel(c, "with too many channels for its groups", form);
    if (c->given[1] && c->arg[1].i != *out)
        return refuse_kernel(c, dl_format(c->E->arena, "but channels=%lld", (long long)c->arg[1].i),
                             "leave out 'channels': the kernel has them");
    if (c->given[f->bias] && c->arg[f->bias].b) {
        dl_bad(c->E, c->arg[f->bias].origin, DL_DIAG_bad_argument,
               "%s with a computed kernel makes no parameters, and so no bias", c->what->name);
        dl_help(c->E, "add it: %s(x, kernel=w) + b", c->what->name);
        return false;
    }
    for (int i = 2; i < w->rank; i++) {
        kernel[i - 2] = w->axis[i].size;
        if (!kernel[i - 2]) return refuse_kernel(c, "of no elements", form);
    }
    return true;
}

/* The same kernel, with the names of axes that a weight has. in: the input's channels, of a group
 * where the convolution is not transposed. */
static dl_val computed_weight(dl_call *c, const conv_form *f, const dl_type *x, int64_t in) {
    dl_val w = c->arg[2];
    dl_type t = w.t->type;
    if (t.axis[f->transposed ? 0 : 1].size != in) {
        refuse_kernel(c,
                      dl_format(c->E->arena, "but there are %lld channels in %sthe input",
                                (long long)in, f->transposed ? "" : "a group of "),
                      f->transposed
                          ? "its first axis is the input's channels"
                          : "its second axis is the input's channels divided by the groups");
        return dl_poison();
    }
    t.axis[0].name = dl_intern("O"), t.axis[1].name = axis_or(x->axis[1].name, "O", "I");
    for (int i = 2; i < t.rank; i++) t.axis[i].name = dl_internf("k%s", x->axis[i].name);
    return dl_tensor_op(c->E, c->where, DL_OP_rename, 1, &w, 0, NULL, &t);
}

dl_val dl_layer_conv(dl_call *c) {
    dl_val x = c->arg[0], w;
    int64_t kernel[3], stride[3], lo[3], hi[3], dilation[3], groups;
    if (!dl_call_float(c, &x)) return dl_poison();
    const dl_type *t = &x.t->type;
    int spatial = t->rank - 2;
    int64_t out = c->arg[1].i, in = t->rank > 1 ? t->axis[1].size : 0;
    bool computed = c->arg[2].kind == DL_V_TENSOR;
    if (!dl_call_image(c, t) ||
        !(computed ? read_kernel(c, &forward, t, &out, kernel)
                   : dl_call_window(c, 2, spatial, 1, kernel)) ||
        !dl_call_window(c, 3, spatial, 1, stride) || !dl_call_window(c, 6, spatial, 1, dilation) ||
        !dl_call_padding(c, 4, t, kernel, stride, dilation, lo, hi) ||
        !groups_of(c, forward.groups, t, out, &groups))
        return dl_poison();
    dl_doubt_image_axes(c->E, c->where, c->arg[0]);
    double fan_in, fan_out;
    w = computed ? computed_weight(c, &forward, t, in / groups)
                 : conv_weight(c, t, out, in / groups, kernel, &fan_in, &fan_out);
    if (w.kind != DL_V_TENSOR) return w;
    dl_attr attrs[6];
    int n = window_attrs(attrs, spatial, stride, lo, hi, dilation, groups);
    dl_val y = dl_tensor_op(c->E, c->where, dl_op_making(DL_TENSOR_Y), 2, (dl_val[]){x, w}, n,
                            attrs, NULL);
    if (computed) return y;
    return add_bias(c, forward.bias, y, t->axis[1].name, out, fan_in, fan_out);
}

/* The size of a transposed convolution along one axis: (n-1)*stride - 2*pad + (kernel-1)*dilation +
 * 1 + out_pad. It is the input gradient of a convolution with n windows; *hi is that convolution's
 * padding at the end. The last *tail elements belong to no window, and are zeros. */
static bool transposed_size(dl_call *c, dl_axis a, int64_t kernel, int64_t stride, int64_t pad,
                            int64_t extra, int64_t dilation, int64_t *size, int64_t *hi,
                            int64_t *tail) {
    int64_t reach = (kernel - 1) * dilation + 1; /* each factor is below 2^31 */
    *hi = pad, *tail = 0;
    if (extra >= stride && extra < dilation) *hi = pad > extra ? pad - extra : 0;
    if (extra && extra >= stride && extra >= dilation) {
        dl_bad(c->E, c->where, DL_DIAG_bad_window,
               "out_pad must be less than the stride%s, but is %lld along %s",
               dilation > 1 ? " or the dilation" : "", (long long)extra, a.name);
        return false;
    }
    if (extra - (pad - *hi) >= stride) *tail = extra - (pad - *hi) - (stride - 1);
    if (__builtin_mul_overflow(a.size - 1, stride, size) ||
        __builtin_add_overflow(*size, reach - 2 * pad + extra, size)) {
        dl_bad(c->E, c->where, DL_DIAG_too_large, "%s=%lld becomes too large", a.name,
               (long long)a.size);
        return false;
    }
    if (*size > *tail) return true;
    dl_bad(c->E, c->where, DL_DIAG_bad_window,
           "along %s nothing is left: (%lld-1)*%lld - 2*%lld + %lld = %lld", a.name,
           (long long)a.size, (long long)stride, (long long)pad, (long long)(reach + extra),
           (long long)*size);
    dl_note_tensor(c->E, c->arg[0]);
    return false;
}

/* PyTorch's ConvTranspose: the input gradient of a convolution. */
dl_val dl_layer_conv_transpose(dl_call *c) {
    dl_val x = c->arg[0];
    int64_t kernel[3], stride[3], pad[3], hi[3], extra[3], size[3], tail[3], dilation[3], groups;
    if (!dl_call_float(c, &x)) return dl_poison();
    const dl_type *t = &x.t->type;
    int spatial = t->rank - 2;
    int64_t out = c->arg[1].i, in = t->rank > 1 ? t->axis[1].size : 0;
    bool computed = c->arg[2].kind == DL_V_TENSOR;
    if (!dl_call_image(c, t) ||
        !(computed ? read_kernel(c, &transposed, t, &out, kernel)
                   : dl_call_window(c, 2, spatial, 1, kernel)) ||
        !dl_call_window(c, 3, spatial, 1, stride) || !dl_call_window(c, 4, spatial, 0, pad) ||
        !dl_call_window(c, 5, spatial, 0, extra) || !dl_call_window(c, 7, spatial, 1, dilation) ||
        !groups_of(c, transposed.groups, t, out, &groups))
        return dl_poison();
    for (int i = 0; i < spatial; i++)
        if (!transposed_size(c, t->axis[i + 2], kernel[i], stride[i], pad[i], extra[i], dilation[i],
                             &size[i], &hi[i], &tail[i]))
            return dl_poison();
    double fan_in, fan_out;
    dl_val w = computed ? computed_weight(c, &transposed, t, in)
                        : conv_weight(c, t, in, out / groups, kernel, &fan_in, &fan_out);
    if (w.kind != DL_V_TENSOR) return w;
    dl_attr attrs[6];
    int n = window_attrs(attrs, spatial, stride, pad, hi, dilation, groups);
    for (int i = 0; i < spatial; i++) size[i] -= tail[i];
    attrs[n++] = dl_attr_ints(DL_ATTR_size, spatial, size);
    dl_val y = dl_tensor_op(c->E, c->where, dl_op_making(DL_TENSOR_X), 2, (dl_val[]){x, w}, n,
                            attrs, NULL);
    for (int i = 0; i < spatial && y.kind == DL_V_TENSOR; i++) {
        const int64_t none = 0;
        dl_attr at[] = {dl_attr_name(DL_ATTR_axis, t->axis[i + 2].name),
                        dl_attr_ints(DL_ATTR_pad_lo, 1, &none),
                        dl_attr_ints(DL_ATTR_pad_hi, 1, &tail[i])};
        if (tail[i]) y = dl_tensor_op(c->E, c->where, DL_OP_pad, 1, &y, 3, at, NULL);
    }
    if (computed) return y;
    return add_bias(c, transposed.bias, y, t->axis[1].name, out, fan_in, fan_out);
}

/* Acts along the last axis, which keeps its name. */
dl_val dl_layer_linear(dl_call *c) {
    dl_val x = c->arg[0];
    if (!dl_call_float(c, &x)) return dl_poison();
    if (x.t->type.rank < 1 || !*x.t->type.axis[x.t->type.rank - 1].name)
        return dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
                      "linear works along the last axis, but its input is %s",
                      dl_type_text(&x.t->type));
    dl_axis last = x.t->type.axis[x.t->type.rank - 1];
    double fan_in = (double)last.size, fan_out = (double)c->arg[1].i;
    dl_type t = dl_scalar(dl_param_type(x));
    dl_type_push(&t, "O", c->arg[1].i);
    dl_type_push(&t, axis_or(last.name, "O", "I"), last.size);
    dl_val w = dl_make_param(c, "weight", t, default_init(fan_in), fan_in, fan_out);
    dl_val y = dl_tensor_op(c->E, c->where, DL_OP_linear, 2, (dl_val[]){x, w}, 0, NULL, NULL);
    return add_bias(c, 2, y, last.name, c->arg[1].i, fan_in, fan_out);
}

bool dl_call_rate(dl_call *c, int i, double *rate) {
    *rate = dl_val_number(c->arg[i]);
    if (*rate >= 0 && *rate < 1) return true;
    dl_bad(c->E, c->arg[i].origin, DL_DIAG_bad_argument,
           "%s: the share dropped is from 0 to less than 1, not %g", c->what->name, *rate);
    return false;
}

/* One decision for each of the axes of argument 2, as torch.nn.Dropout2d for N and C. A product, as
 * that of the op dropout. */
static dl_val drop_along(dl_call *c, dl_val x, double rate) {
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 2, x, &n, names)) return dl_poison();
    dl_dtype type = x.t->type.dtype;
    dl_val toss = dl_call_rand(c, x, n, names), least = dl_val_float(rate, c->where);
    dl_val in[] = {dl_call_elem(c, DL_OP_ge, toss, least),
                   dl_tensor_of(c->E, dl_val_float(1 / (1 - rate), c->where), type),
                   dl_tensor_of(c->E, dl_val_float(0, c->where), type)};
    dl_val scale = dl_tensor_elem(c->E, c->where, DL_OP_select, 3, in, 0, NULL);
    return dl_call_elem(c, DL_OP_mul, x, scale);
}

/* dropout and drop_path: the identity in evaluation, and at rate 0. */
dl_val dl_layer_dropout(dl_call *c) {
    double rate;
    if (!dl_call_rate(c, 1, &rate)) return dl_poison();
    if (!c->E->train || rate == 0) return c->arg[0];
    dl_attr attr = dl_attr_float(DL_ATTR_rate, rate);
    dl_val x = c->arg[0];
    if (!dl_call_float(c, &x)) return dl_poison();
    if (c->what->op == DL_OP_dropout && c->given[2]) return drop_along(c, x, rate);
    return dl_tensor_op(c->E, c->where, c->what->op, 1, &x, 1, &attr, NULL);
}
