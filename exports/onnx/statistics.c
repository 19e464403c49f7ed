#include "exports/onnx/statistics.h"

#include "exports/export.h"

static bool scales(const dl_array_record *r) { return r && r->n_scales; }

dl_dtype dl_onnx_raw_dtype(dl_dtype dtype, const dl_array_record *r) {
    return scales(r) && dl_dtype_is_half(dtype) ? DL_F32 : dtype;
}

/* The record's numbers along the axis of `like` by which they are given. */
static const char *numbers(dl_onnx *o, const dl_array_record *r, const float *of,
                           const dl_onnx_value *like) {
    dl_dtype dtype = like->type.dtype;
    int axis = dl_type_channel_axis(&like->type);
    if (r->n_scales == 1) return dl_onnx_scalar(o, dtype, of[0]);
    dl_type t = dl_scalar(dtype);
    double *values = DL_NEWS(o->arena, double, r->n_scales);
    for (int i = 0; i < r->n_scales; i++) values[i] = of[i];
    dl_type_push(&t, "", r->n_scales);
    for (int i = axis + 1; i < like->type.rank; i++) dl_type_push(&t, "", 1);
    return dl_onnx_doubles(o, t, values);
}

dl_onnx_value dl_onnx_normalise(dl_onnx *o, dl_onnx_value x, const dl_array_record *r,
                                dl_dtype to) {
    if (scales(r)) {
        x.name = dl_onnx_add2(o, "Sub", x.name, numbers(o, r, r->mean, &x));
        x.name = dl_onnx_add2(o, "Div", x.name, numbers(o, r, r->deviation, &x));
    }
    if (r && r->replaces_nan && dl_dtype_is_float(x.type.dtype)) {
        /* x - x is 0, and NaN where x is NaN or infinite. */
        const char *none = dl_onnx_add1(o, "IsNaN", dl_onnx_add2(o, "Sub", x.name, x.name));
        const char *value = dl_onnx_scalar(o, x.type.dtype, r->nan);
        x.name = dl_onnx_add3(o, "Where", none, value, x.name);
    }
    return dl_onnx_cast(o, x, to);
}

dl_onnx_value dl_onnx_undo(dl_onnx *o, dl_onnx_value y, const dl_array_record *r) {
    if (!scales(r)) return y;
    y = dl_onnx_cast(o, y, dl_onnx_raw_dtype(y.type.dtype, r));
    y.name = dl_onnx_add2(o, "Mul", y.name, numbers(o, r, r->deviation, &y));
    y.name = dl_onnx_add2(o, "Add", y.name, numbers(o, r, r->mean, &y));
    return y;
}
