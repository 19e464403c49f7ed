/* Linear scans. ONNX has cumulative sums; with factors a scan is made by doubling (Hillis and
 * Steele 1986): after d steps each element has the sum of 2^d steps, and the product of their
 * factors. */
#include "ir/scan.h"
#include "exports/onnx/ops.h"

typedef struct {
    dl_onnx *o;
    int axis, rank;
    bool reverse;
    int64_t steps;
    dl_dtype type;
} scan;

/* x `far` steps later, and `fill` in its place at the first steps. */
static const char *shifted(const scan *s, const char *x, int64_t far, double fill) {
    dl_onnx *o = s->o;
    int64_t pads[2 * DL_MAX_RANK] = {0};
    pads[s->reverse ? s->rank + s->axis : s->axis] = far;
    const char *cut[] = {x, dl_onnx_int(o, s->reverse ? far : 0),
                         dl_onnx_int(o, s->reverse ? s->steps : s->steps - far),
                         dl_onnx_int(o, s->axis)};
    return dl_onnx_add3(o, "Pad", dl_onnx_add(o, "Slice", 4, cut, NULL),
                        dl_onnx_ints(o, 2 * s->rank, pads), dl_onnx_scalar(o, s->type, fill));
}

static const char *by_doubling(const scan *s, const char *a, const char *b, bool before) {
    dl_onnx *o = s->o;
    if (before && s->steps > 1) a = shifted(s, a, 1, 1);
    for (int64_t far = 1; far < s->steps; far *= 2) {
        b = dl_onnx_add2(o, "Add", dl_onnx_add2(o, "Mul", a, shifted(s, b, far, 0)), b);
        if (2 * far < s->steps) a = dl_onnx_add2(o, "Mul", a, shifted(s, a, far, 1));
    }
    return dl_onnx_add(o, "Identity", 1, &b, NULL);
}

/* States of 16-bit numbers are f32. */
bool dl_onnx_scan(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_scan facts = dl_scan_of(n);
    dl_onnx_value b = dl_onnx_in(o, n, DL_SCAN_B), y = dl_onnx_out(o, n);
    dl_dtype own = y.type.dtype, wide = dl_dtype_is_half(own) ? DL_F32 : own;
    scan s = {
        .o = o, .rank = y.type.rank, .reverse = facts.reverse, .steps = facts.steps, .type = wide};
    s.axis = dl_type_axis(&y.type, dl_node_name(n, DL_ATTR_axis));
    b = dl_onnx_cast(o, b, wide), y.type.dtype = wide;
    if (facts.has_factors) {
        if (y.per[s.axis]) return dl_onnx_needs_batch(o);
        dl_onnx_value a = dl_onnx_cast(o, dl_onnx_in(o, n, DL_SCAN_A), wide);
        y.name = by_doubling(&s, a.name, b.name, facts.before);
    } else {
        dl_buf attributes = {0};
        if (s.reverse) dl_onnx_put_int(&attributes, "reverse", 1);
        const char *in[] = {b.name, dl_onnx_scalar(o, DL_I64, s.axis)};
        y.name = dl_onnx_add(o, word, 2, in, &attributes);
    }
    return dl_onnx_set(o, n, dl_onnx_cast(o, y, own).name);
}
