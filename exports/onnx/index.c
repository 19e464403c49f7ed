/* Elements by index: windows and other regular selections, and lookups. */
#include <math.h>

#include "exports/onnx/ops.h"
#include "ir/affine.h"
#include "ir/base/str.h"

static const char *gather(dl_onnx *o, const char *x, const char *at, int axis) {
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", axis);
    return dl_onnx_add(o, "Gather", 2, (const char *[]){x, at}, &attributes);
}

/* The places of an affine selection, row-major over its one or two axes. */
typedef struct {
    int64_t *place;
    double *filled; /* 1 where the axis has no element, and the rule's value stands instead */
    bool fills;
} places;

static places find_places(dl_onnx *o, const dl_node *n, int64_t size, int64_t rows, int64_t taps) {
    const dl_attr *stride = dl_node_attr(n, DL_ATTR_stride);
    dl_outside outside = (dl_outside)dl_outside_find(dl_node_name(n, DL_ATTR_outside));
    places p = {DL_NEWS(o->arena, int64_t, rows * taps + 1),
                DL_NEWS(o->arena, double, rows *taps + 1), false};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < taps; j++) {
            int64_t sum = i * stride->ints[0] + (stride->n > 1 ? j * stride->ints[1] : 0) +
                          dl_node_int(n, DL_ATTR_start);
            int64_t at = dl_affine_place(sum, dl_node_int(n, DL_ATTR_div), outside, size);
            p.place[i * taps + j] = at < 0 ? 0 : at;
            p.filled[i * taps + j] = at < 0;
            p.fills |= at < 0;
        }
    return p;
}

/* Puts a value where the mask is true. */
static const char *fill(dl_onnx *o, const dl_node *n, const char *x, dl_onnx_value mask,
                        double value) {
    const dl_onnx_value out = dl_onnx_out(o, n);
    mask = dl_onnx_align(o, mask, &out);
    const dl_dtype type = out.type.dtype;
    return dl_onnx_where(o, mask.name, dl_onnx_scalar(o, type, value), x, type);
}

/* The node's result: x at the places, which differ along axis `at` and perhaps `tap` (-1: not). */
static bool set_filled(dl_onnx *o, const dl_node *n, const char *x, const places *p, int at,
                       int tap) {
    const dl_onnx_value out = dl_onnx_out(o, n);
    dl_onnx_value mask = {.type = dl_scalar(DL_BOOL)};
    if (!p->fills) return dl_onnx_set(o, n, x);
    dl_onnx_push_axis(&mask, &out, at);
    if (tap >= 0) dl_onnx_push_axis(&mask, &out, tap);
    mask.name = dl_onnx_doubles(o, mask.type, p->filled);
    int rule = dl_outside_find(dl_node_name(n, DL_ATTR_outside));
    return dl_onnx_set(o, n, fill(o, n, x, mask, dl_outside_value((dl_outside)rule)));
}

/* Along one axis A: x at constant places, [.., A, ..]. */
static bool select_one(dl_onnx *o, const dl_node *n, int at, dl_onnx_value x) {
    int64_t rows = n->out[0].type.axis[at].size;
    places p = find_places(o, n, x.type.axis[at].size, rows, 1);
    const char *y = gather(o, x.name, dl_onnx_ints(o, (int)rows, p.place), at);
    return set_filled(o, n, y, &p, at, -1);
}

/* Windows: x at places [A, K], whose K is moved to the end. */
static bool select_windows(dl_onnx *o, const dl_node *n, int at, dl_onnx_value x) {
    const dl_onnx_value out = dl_onnx_out(o, n);
    int tap = out.type.rank - 1, order[DL_MAX_RANK];
    dl_onnx_value index = {.type = dl_scalar(DL_I64)}, y = {.type = dl_scalar(x.type.dtype)};
    dl_onnx_push_axis(&index, &out, at), dl_onnx_push_axis(&index, &out, tap);
    places p =
        find_places(o, n, x.type.axis[at].size, out.type.axis[at].size, out.type.axis[tap].size);
    y.name = gather(o, x.name, dl_onnx_constant(o, index.type, p.place), at);
    for (int i = 0; i < x.type.rank; i++) {
        dl_onnx_push_axis(&y, &out, i);
        if (i == at) dl_onnx_push_axis(&y, &out, tap);
    }
    for (int i = 0; i < out.type.rank; i++) order[i] = i <= at ? i : i == tap ? at + 1 : i + 1;
    return set_filled(o, n, dl_onnx_permute(o, y, order).name, &p, at, tap);
}

/* Places [A, K] of an operand that has both axes, as gradients of windows read: element (place, k)
 * of the two as one axis. */
static bool select_pairs(dl_onnx *o, const dl_node *n, int at, int tap, dl_onnx_value x) {
    const dl_onnx_value out = dl_onnx_out(o, n);
    int order[DL_MAX_RANK], back[DL_MAX_RANK], rank = x.type.rank, kept = 0;
    int64_t taps = x.type.axis[tap].size, rows = out.type.axis[at].size;
    places p = find_places(o, n, x.type.axis[at].size, rows, taps);
    dl_onnx_value flat = {.type = dl_scalar(x.type.dtype)}, index = {.type = dl_scalar(DL_I64)};
    for (int64_t i = 0; i < rows * taps; i++) p.place[i] = p.place[i] * taps + i % taps;
    for (int i = 0; i < rank; i++)
        if (i != at && i != tap) {
            dl_onnx_push_axis(&flat, &x, i);
            back[i] = kept, order[kept++] = i;
        }
    dl_onnx_push(&flat, "", x.type.axis[at].size * taps, 0);
    order[kept] = at, order[kept + 1] = tap, back[at] = kept, back[tap] = kept + 1;
    x = dl_onnx_reshape(o, dl_onnx_permute(o, x, order), &flat);
    dl_onnx_push_axis(&index, &out, at), dl_onnx_push_axis(&index, &out, tap);
    flat.type.rank--;
    dl_onnx_push_axis(&flat, &out, at), dl_onnx_push_axis(&flat, &out, tap);
    flat.name = gather(o, x.name, dl_onnx_constant(o, index.type, p.place), kept);
    return set_filled(o, n, dl_onnx_permute(o, flat, back).name, &p, at, tap);
}

/* An axis without elements has nothing to gather: one element, which is not read, stands in. */
static dl_onnx_value with_element(dl_onnx *o, dl_onnx_value x, int at) {
    if (x.type.axis[at].size) return x;
    int64_t pads[2 * DL_MAX_RANK] = {0};
    pads[at] = 1, x.type.axis[at].size = 1;
    x.name = dl_onnx_add2(o, "Pad", x.name, dl_onnx_ints(o, 2 * x.type.rank, pads));
    return x;
}

bool dl_onnx_affine(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_attr *along = dl_node_attr(n, DL_ATTR_along);
    dl_onnx_value x = dl_onnx_in(o, n, 0), out = dl_onnx_out(o, n);
    int at = dl_type_axis(&x.type, along->names[0]);
    int tap = along->n > 1 ? dl_type_axis(&x.type, along->names[1]) : -1;
    (void)word;
    if (x.per[at] || out.per[at] || (tap >= 0 && x.per[tap])) return dl_onnx_needs_batch(o);
    x = with_element(o, x, at);
    if (tap >= 0) return select_pairs(o, n, at, tap, x);
    if (along->n == 1) return select_one(o, n, at, x);
    return select_windows(o, n, at, x);
}

/* ---- lookups ---- */

/* Index `at` inside the axis, and whether it was: the element of an index outside is a NaN (0,
 * false), where ONNX Runtime would fail or count from the end. */
static const char *inside(dl_onnx *o, dl_onnx_value *at, int64_t size) {
    const char *zero = dl_onnx_scalar(o, at->type.dtype, 0),
               *last = dl_onnx_scalar(o, at->type.dtype, (double)(size ? size - 1 : 0));
    const char *low = dl_onnx_add2(o, "Less", at->name, zero),
               *high = dl_onnx_add2(o, "Greater", at->name, last);
    at->name = dl_onnx_add2(o, "Min", dl_onnx_add2(o, "Max", at->name, zero), last);
    return dl_onnx_add2(o, "Or", low, high);
}

/* Where x and the indices share axes: both with the shared ones first, which GatherND takes as
 * batches. */
static dl_onnx_value gather_shared(dl_onnx *o, dl_onnx_value x, dl_onnx_value at, int axis) {
    int of_x[DL_MAX_RANK], of_at[DL_MAX_RANK], nx = 0, na = 0, shared;
    for (int i = 0; i < at.type.rank; i++) {
        int k = *at.type.axis[i].name ? dl_type_axis(&x.type, at.type.axis[i].name) : -1;
        if (k >= 0 && k != axis) of_at[na++] = i, of_x[nx++] = k;
    }
    shared = nx;
    of_x[nx++] = axis;
    for (int i = 0; i < x.type.rank; i++) {
        bool has = false;
        for (int k = 0; k < shared + 1; k++) has |= of_x[k] == i;
        if (!has) of_x[nx++] = i;
    }
    for (int i = 0; i < at.type.rank; i++) {
        bool has = false;
        for (int k = 0; k < shared; k++) has |= of_at[k] == i;
        if (!has) of_at[na++] = i;
    }
    x = dl_onnx_permute(o, x, of_x), at = dl_onnx_permute(o, at, of_at);
    dl_onnx_value y = {.type = dl_scalar(x.type.dtype)};
    for (int i = 0; i < at.type.rank; i++) dl_onnx_push_axis(&y, &at, i);
    for (int i = shared + 1; i < x.type.rank; i++) dl_onnx_push_axis(&y, &x, i);
    if (!shared) return dl_onnx_named(y, gather(o, x.name, at.name, 0));
    at = dl_onnx_unsqueeze(o, dl_onnx_cast(o, at, DL_I64), 1u << at.type.rank);
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "batch_dims", shared);
    y.name = dl_onnx_add(o, "GatherND", 2, (const char *[]){x.name, at.name}, &attributes);
    return y;
}

/* The axes in `like`'s order; axes without a name keep theirs. */
static dl_onnx_value in_order(dl_onnx *o, dl_onnx_value y, const dl_onnx_value *like) {
    int order[DL_MAX_RANK];
    unsigned taken = 0;
    for (int i = 0; i < y.type.rank; i++) {
        int k = 0;
        while (taken >> k & 1 || y.type.axis[k].name != like->type.axis[i].name) k++;
        order[i] = k, taken |= 1u << k;
    }
    return dl_onnx_permute(o, y, order);
}

bool dl_onnx_gather(dl_onnx *o, const dl_node *n, const char *word) {
    dl_onnx_value x = dl_onnx_in(o, n, 0), at = dl_onnx_in(o, n, 1), out = dl_onnx_out(o, n);
    int axis = dl_type_axis(&x.type, dl_node_name(n, DL_ATTR_axis));
    (void)word;
    if (x.per[axis]) return dl_onnx_needs_batch(o);
    dl_onnx_value none = at;
    none.type.dtype = DL_BOOL;
    none.name = inside(o, &at, x.type.axis[axis].size);
    dl_onnx_value y = gather_shared(o, with_element(o, x, axis), at, axis);
    y = in_order(o, y, &out);
    double value = dl_dtype_is_float(x.type.dtype) ? (double)__builtin_nanf("") : 0;
    return dl_onnx_set(o, n, fill(o, n, y.name, none, value));
}

/* ---- sums by index ---- */

/* The axes of a scatter_add in another order: those that indices and result share, the indices'
 * own, and the result's own. */
typedef struct {
    dl_onnx_value numbers; /* of the indices: shared, own */
    dl_onnx_value values;  /* of the summands: shared, own, rest */
    dl_onnx_value flat;    /* the same with all own axes as one */
    dl_onnx_value sums;    /* of the result: shared, the axis, rest */
    int shared;
} scatter_axes;

static scatter_axes find_scatter(const dl_onnx_value *at, const dl_onnx_value *out, int axis) {
    scatter_axes s = {.numbers.type = dl_scalar(at->type.dtype),
                      .sums.type = dl_scalar(out->type.dtype)};
    int64_t count = 1, per = 1;
    unsigned is_shared = 0, of_out = 1u << axis;
    for (int i = 0; i < at->type.rank; i++) {
        int k = *at->type.axis[i].name ? dl_type_axis(&out->type, at->type.axis[i].name) : -1;
        if (k < 0 || k == axis) continue;
        dl_onnx_push_axis(&s.numbers, at, i), dl_onnx_push_axis(&s.sums, at, i);
        is_shared |= 1u << i, of_out |= 1u << k, s.shared++;
    }
    s.flat = s.sums;
    bool batched = false;
    for (int i = 0; i < at->type.rank; i++) {
        if (is_shared >> i & 1) continue;
        dl_onnx_push_axis(&s.numbers, at, i);
        count *= at->type.axis[i].size, batched |= at->per[i] != 0;
        per *= at->per[i] ? at->per[i] : at->type.axis[i].size;
    }
    dl_onnx_push(&s.flat, dl_intern("all indices"), count, batched ? per : 0);
    dl_onnx_push_axis(&s.sums, out, axis);
    s.values = s.numbers, s.values.type.dtype = out->type.dtype;
    for (int i = 0; i < out->type.rank; i++) {
        if (of_out >> i & 1) continue;
        dl_onnx_push_axis(&s.values, out, i);
        dl_onnx_push_axis(&s.flat, out, i), dl_onnx_push_axis(&s.sums, out, i);
    }
    return s;
}

/* An index out of range adds zero at place 0. */
bool dl_onnx_scatter_add(dl_onnx *o, const dl_node *n, const char *word) {
    dl_onnx_value x = dl_onnx_in(o, n, 0), at = dl_onnx_in(o, n, 1), out = dl_onnx_out(o, n);
    int axis = dl_type_axis(&out.type, dl_node_name(n, DL_ATTR_axis));
    if (out.per[axis]) return dl_onnx_needs_batch(o);
    scatter_axes s = find_scatter(&at, &out, axis);
    const char *zero = dl_onnx_scalar(o, out.type.dtype, 0);
    dl_onnx_value index = s.flat, none = {.name = zero, .type = dl_scalar(out.type.dtype)};
    index.type.rank = s.shared + 1, index.type.dtype = at.type.dtype;
    at = dl_onnx_reshape(o, in_order(o, at, &s.numbers), &index);
    at = dl_onnx_unsqueeze(o, at, ((1u << s.flat.type.rank) - 1) & ~0u << index.type.rank);
    x = dl_onnx_reshape(o, in_order(o, x, &s.values), &s.flat);
    const char *outside = inside(o, &at, out.type.axis[axis].size);
    x.name = dl_onnx_where(o, outside, zero, x.name, out.type.dtype);
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", s.shared);
    dl_onnx_put_text(&attributes, "reduction", "add");
    const char *in[] = {dl_onnx_expand(o, none, &s.sums).name, dl_onnx_expand(o, at, &s.flat).name,
                        x.name};
    s.sums.name = dl_onnx_add(o, word, 3, in, &attributes);
    return dl_onnx_set(o, n, in_order(o, s.sums, &out).name);
}

/* ScatterElements takes the largest value since opset 18 alone. Here each element is compared with
 * each place of the axis. */
bool dl_onnx_scatter_max(dl_onnx *o, const dl_node *n, const char *word) {
    dl_onnx_value x = dl_onnx_in(o, n, 0), at = dl_onnx_in(o, n, 1), out = dl_onnx_out(o, n);
    const int axis = dl_type_axis(&out.type, dl_node_name(n, DL_ATTR_axis));
    const dl_dtype made = out.type.dtype;
    if (out.per[axis]) return dl_onnx_needs_batch(o);
    scatter_axes s = find_scatter(&at, &out, axis);
    dl_onnx_value index = s.flat, numbers = {.type = dl_scalar(DL_I64)};
    const int place = s.shared + 1, rank = s.flat.type.rank + 1;
    const int64_t size = out.type.axis[axis].size, over = s.shared;
    index.type.rank = place, index.type.dtype = DL_I64;
    at = dl_onnx_reshape(o, dl_onnx_cast(o, in_order(o, at, &s.numbers), DL_I64), &index);
    at = dl_onnx_unsqueeze(o, at, ((1u << rank) - 1) & ~0u << place);
    x = dl_onnx_unsqueeze(o, dl_onnx_reshape(o, in_order(o, x, &s.values), &s.flat), 1u << place);
    int64_t *count = DL_NEWS(o->arena, int64_t, size + 1);
    for (int64_t i = 0; i < size; i++) count[i] = i;
    dl_onnx_push_axis(&numbers, &out, axis);
    numbers.name = dl_onnx_constant(o, numbers.type, count);
    numbers = dl_onnx_unsqueeze(o, numbers, ((1u << (rank - place)) - 1) & ~1u);
    dl_onnx_value hit = {.name = dl_onnx_add2(o, "Equal", at.name, numbers.name),
                         .type = dl_scalar(DL_BOOL)};
    const double lowest = dl_dtype_is_float(made) ? -INFINITY : made == DL_I32 ? -0x1p31 : -0x1p63;
    const char *most = dl_onnx_add3(o, "Where", hit.name, x.name, dl_onnx_scalar(o, made, lowest)),
               *some = dl_onnx_reduced(o, word, dl_onnx_cast(o, hit, DL_I32).name, 1, &over, false);
    some = dl_onnx_add2(o, "Greater", some, dl_onnx_scalar(o, DL_I32, 0));
    s.sums.name = dl_onnx_add3(o, "Where", some, dl_onnx_reduced(o, word, most, 1, &over, false),
                               dl_onnx_scalar(o, made, 0));
    return dl_onnx_set(o, n, in_order(o, s.sums, &out).name);
}
