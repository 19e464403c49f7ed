/* The lowering of cumulative sums, products and linear scans to one template (ir/scan.h). */
#include "ir/scan.h"
#include "passes/lower/lower.h"

static dl_value *scan(dl_builder *b, const dl_node *n, int nin, dl_value *const *in) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, dl_node_name(n, DL_ATTR_axis)),
                    dl_attr_name(DL_ATTR_mode, "own"),
                    dl_attr_int(DL_ATTR_reverse, dl_scan_is_reverse(n))};
    return dl_build(b, DL_OP_scan_linear, nin, in, 3, at);
}

dl_value *dl_lower_cumsum(dl_builder *b, const dl_node *n) { return scan(b, n, 1, n->in); }

/* The factors are x, and only the first step adds something: x, too. */
dl_value *dl_lower_cumprod(dl_builder *b, const dl_node *n) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_value *x = n->in[0];
    int64_t size = x->type.axis[dl_type_axis(&x->type, axis)].size;
    if (size < 2) return x;
    int64_t first = dl_scan_is_reverse(n) ? size - 1 : 0, after = size - 1 - first;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_ints(DL_ATTR_pad_lo, 1, &first),
                    dl_attr_ints(DL_ATTR_pad_hi, 1, &after)};
    dl_value *start = dl_build_slice(b, x, axis, first, first + 1);
    dl_value *in[] = {dl_build(b, DL_OP_pad, 1, &start, 3, at), x};
    return scan(b, n, 2, in);
}

dl_value *dl_lower_linear_scan(dl_builder *b, const dl_node *n) {
    const dl_type type = n->out[0].type;
    dl_value *in[] = {[DL_SCAN_B] = dl_build_broadcast(b, n->in[1], type),
                      [DL_SCAN_A] = dl_build_broadcast(b, n->in[0], type)};
    return scan(b, n, 2, in);
}
