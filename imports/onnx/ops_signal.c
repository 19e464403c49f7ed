/* Fourier transforms, whose complex numbers ONNX stores as a last axis of two parts. */
#include "imports/onnx/parts.h"

/* Ends a node whose result is complex. */
static dl_ox_value *complex(dl_ox_op *o, const char *op, const dl_ox_shape *s,
                            const dl_ox_value *like) {
    dl_ox_value *y = dl_ox_make(o, op, NULL, s, like);
    if (y) y->t->pair = true;
    return y;
}

/* The op's result: complex numbers as ONNX has them. */
static bool as_parts(dl_ox_op *o, dl_ox_value *y) {
    if (!y) return false;
    dl_ox_shape s = dl_ox_shape_of(y);
    dl_ox_arg_tensor(o, "self", y);
    return dl_ox_make(o, "aten.view_as_real.default", o->n->out[0], &s, y);
}

/* Numbers [..., 1] without their last axis. */
static dl_ox_value *real_part(dl_ox_op *o, dl_ox_value *x) {
    dl_ox_shape s = dl_ox_shape_of(x);
    s.rank--;
    dl_ox_arg_tensor(o, "self", x);
    return dl_ox_make(o, "aten.reshape.default", NULL, &s, x);
}

bool dl_ox_dft(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *y;
    dl_ox_shape s = dl_ox_shape_of(x);
    bool real = s.rank > 1 && s.size[s.rank - 1] == 1, inverse = dl_ox_int(o->n, "inverse", 0) != 0,
         half = dl_ox_int(o->n, "onesided", 0) != 0;
    /* opset 20 has made an operand of the attribute */
    double axis = (double)dl_ox_int(o->n, "axis", 1), length;
    if (s.rank < 2 || (!real && s.size[s.rank - 1] != 2) || x->t->class != DL_FOREIGN_FLOAT ||
        (half && (!real || inverse)))
        return false;
    if (!dl_ox_attribute(o->n, "axis") && o->r->opset >= 20) axis = -2;
    if (dl_ox_in(o, 2) && !dl_ox_number(o->r, o->n->in[2], &axis)) return false;
    int d = dl_ox_dim(dl_ox_whole(axis), s.rank);
    if (d < 0 || d == s.rank - 1) return dl_ox_bad(o->r, "its axis is out of range");
    length = (double)s.size[d];
    if (dl_ox_in(o, 1) && !dl_ox_number(o->r, o->n->in[1], &length)) return false;
    if (s.size[d] % DL_OX_BATCH == 0 || length < 1 || length > 1 << 24) return false;
    if (real) {
        y = real_part(o, x);
    } else {
        dl_ox_arg_tensor(o, "self", x);
        y = complex(o, "aten.view_as_complex.default", &s, x);
    }
    if (!y) return false;
    s.size[d] = half ? (int64_t)length / 2 + 1 : (int64_t)length, s.size[s.rank - 1] = 2;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_int(o, "n", (int64_t)length);
    dl_ox_arg_int(o, "dim", d);
    return as_parts(o, complex(o,
                               half      ? "aten.fft_rfft.default"
                               : inverse ? "aten.fft_ifft.default"
                                         : "aten.fft_fft.default",
                               &s, x));
}

bool dl_ox_stft(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *window = dl_ox_in(o, 2), *y = x;
    dl_ox_shape given = dl_ox_shape_of(x), s = {4, {given.size[0], 0, 0, 2}};
    bool half = dl_ox_int(o->n, "onesided", 1) != 0;
    double hop, width = window && window->t->rank == 1 ? (double)window->t->shape[0] : 0;
    if (given.rank < 2 || given.rank > 3 || (given.rank == 3 && given.size[2] != 1) ||
        !dl_ox_in(o, 1) || !dl_ox_number(o->r, o->n->in[1], &hop) || hop < 1 ||
        x->t->class != DL_FOREIGN_FLOAT)
        return false;
    if (dl_ox_in(o, 3) && !dl_ox_number(o->r, o->n->in[3], &width)) return false;
    if (window && (window->t->rank != 1 || (double)window->t->shape[0] != width)) return false;
    if (width < 1 || width > (double)given.size[1] || hop > (double)given.size[1]) return false;
    s.size[1] = half ? (int64_t)width / 2 + 1 : (int64_t)width;
    s.size[2] = (given.size[1] - (int64_t)width) / (int64_t)hop + 1;
    if (given.rank == 3 && !(y = real_part(o, x))) return false;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_int(o, "n_fft", (int64_t)width);
    dl_ox_arg_int(o, "hop_length", (int64_t)hop), dl_ox_arg_tensor(o, "window", window);
    dl_ox_arg_int(o, "onesided", half);
    if (!(y = complex(o, "aten.stft.default", &s, x))) return false;
    dl_ox_shape turned = {4, {s.size[0], s.size[2], s.size[1], 2}};
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_ints(o, "dims", 3, (int64_t[]){0, 2, 1});
    return as_parts(o, complex(o, "aten.permute.default", &turned, x));
}
