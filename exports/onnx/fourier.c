/* Fourier transforms as products with tables of cosines and sines, which every version of ONNX has
 * and any program computes alike. ONNX's own op DFT has no real result and no choice of modes. */
#include "ir/fourier.h"

#include <math.h>

#include "exports/export.h"
#include "exports/onnx/ops.h"

enum { MOST = 1 << 24 /* entries of a table, of at most four numbers each */ };

/* The numbers of real and imaginary parts of operand and result. */
static int parts_in(const dl_fourier *f) { return f->mode == DL_FOURIER_R2C ? 1 : 2; }
static int parts_out(const dl_fourier *f) { return f->mode == DL_FOURIER_C2R ? 1 : 2; }

/* The factors by which element `from` of the operand is added to element `to` of the result: [parts
 * of the one, parts of the other]. */
static void put_entry(const dl_fourier *f, int64_t from, int64_t to, double *at, int64_t row) {
    bool makes_modes = dl_fourier_makes_modes(f->mode);
    int64_t sample = makes_modes ? from : to, mode = dl_fourier_number(f, makes_modes ? to : from);
    double angle = 6.283185307179586 * (double)(sample * mode % f->size) / (double)f->size;
    double scale = f->scale * dl_fourier_weight(f, mode), re = scale * cos(angle),
           im = (makes_modes ? -scale : scale) * sin(angle);
    bool real = f->mode == DL_FOURIER_C2R && (mode == 0 || 2 * mode == f->size);
    at[0] = re;
    if (parts_out(f) == 2) at[1] = im;
    if (parts_in(f) == 2) at[row] = real ? 0 : -im;
    if (parts_in(f) == 2 && parts_out(f) == 2) at[row + 1] = re;
}

/* [elements in and their parts, elements out and their parts] */
static const char *table_of(dl_onnx *o, const dl_fourier *f, dl_dtype dtype, int64_t in,
                            int64_t out) {
    int64_t rows = in * parts_in(f), columns = out * parts_out(f);
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, "", rows), dl_type_push(&t, "", columns);
    double *table = DL_NEWS(o->arena, double, rows *columns + 1);
    for (int64_t i = 0; i < in; i++)
        for (int64_t k = 0; k < out; k++)
            put_entry(f, i, k, table + i * parts_in(f) * columns + k * parts_out(f), columns);
    return dl_onnx_doubles(o, t, table);
}

/* The value with axis `at` after all others but the parts of a complex number, which come last. */
static dl_onnx_value axis_last(dl_onnx *o, dl_onnx_value v, int at, bool complex) {
    int order[DL_MAX_RANK], n = 0, ends = v.type.rank - complex;
    for (int i = 0; i < ends; i++)
        if (i != at) order[n++] = i;
    order[n++] = at;
    if (complex) order[n++] = ends;
    return dl_onnx_permute(o, v, order);
}

/* The reverse: the last axis, before the parts, at place `at`. */
static dl_onnx_value axis_at(dl_onnx *o, dl_onnx_value v, int at, bool complex) {
    int order[DL_MAX_RANK], n = 0, last = v.type.rank - 1 - complex;
    for (int i = 0; i < last; i++) {
        if (i == at) order[n++] = last;
        order[n++] = i;
    }
    if (at == last) order[n++] = last;
    if (complex) order[n++] = last + 1;
    return dl_onnx_permute(o, v, order);
}

/* The last two axes as one. */
static dl_onnx_value joined(dl_onnx *o, dl_onnx_value v) {
    dl_onnx_value t = {.type = dl_scalar(v.type.dtype)};
    int last = v.type.rank - 1;
    for (int i = 0; i < last - 1; i++) dl_onnx_push_axis(&t, &v, i);
    dl_onnx_push(&t, "", v.type.axis[last - 1].size * v.type.axis[last].size, 0);
    return dl_onnx_reshape(o, v, &t);
}

bool dl_onnx_fourier(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_fourier f = dl_fourier_of(n);
    dl_onnx_value x = dl_onnx_in(o, n, 0), out = dl_onnx_out(o, n),
                  y = {.type = dl_scalar(out.type.dtype)};
    int at = dl_type_axis(&x.type, dl_node_name(n, DL_ATTR_axis));
    int64_t in = x.type.axis[at].size, made = out.type.axis[at].size;
    bool complex_in = parts_in(&f) == 2, complex_out = parts_out(&f) == 2;
    if (x.per[at]) return dl_onnx_needs_batch(o);
    if (in * made > MOST) return dl_export_refuse(n, "ONNX", o->err);
    x = axis_last(o, x, at, complex_in);
    if (complex_in) x = joined(o, x);
    const char *product = dl_onnx_add2(o, word, x.name, table_of(o, &f, x.type.dtype, in, made));
    for (int i = 0; i < out.type.rank - complex_out; i++)
        if (i != at) dl_onnx_push_axis(&y, &out, i);
    dl_onnx_push_axis(&y, &out, at);
    if (complex_out) {
        dl_onnx_value flat = y;
        dl_onnx_push_axis(&y, &out, out.type.rank - 1);
        flat.type.axis[flat.type.rank - 1].size *= 2;
        y = dl_onnx_reshape(o, dl_onnx_named(flat, product), &y);
    } else {
        y.name = product;
    }
    return dl_onnx_set(o, n, axis_at(o, y, at, complex_out).name);
}
