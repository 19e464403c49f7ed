/* Rules of the contractions and of pooling: how a window slides.
 *
 * The three convolutions state one relation between x [N, C, s...], w [O, C, k...] and y [N, O, s'...]:
 *     s' = floor((s + pad_lo + pad_hi - k) / stride) + 1        along every spatial axis
 * and differ only in which of the three is the result. */
#include "ir/infer_rules.h"

/* Attributes beyond this are refused before they are computed with. */
static const int64_t huge = (int64_t)1 << 47;
enum { MAX_SPATIAL = 3 };

/* One list an axis: right length, every entry from `least` to 2^47. */
static bool check_list(const dl_node *n, dl_attr_id id, int spatial, int64_t least, const char *code,
                       dl_shape_fault *fault) {
    const dl_attr *a = dl_node_attr(n, id);
    if (a->n != spatial)
        return dl_fault(fault, -1, code, "%s has %d spatial axes, but '%s' has %d entries", dl_op_text(n),
                        spatial, dl_attrs[id].name, a->n);
    for (int i = 0; i < spatial; i++)
        if (a->ints[i] < least || a->ints[i] > huge)
            return dl_fault(fault, -1, code, "%s: entry %d of '%s' is %lld; it must be %lld or more%s",
                            dl_op_text(n), i + 1, dl_attrs[id].name, (long long)a->ints[i], (long long)least,
                            a->ints[i] > huge ? " and at most 2^47" : "");
    return true;
}

static bool check_window(const dl_node *n, int spatial, dl_shape_fault *fault) {
    return check_list(n, DL_ATTR_stride, spatial, 1, "bad_stride", fault) &&
           check_list(n, DL_ATTR_pad_lo, spatial, 0, "bad_window", fault) &&
           check_list(n, DL_ATTR_pad_hi, spatial, 0, "bad_window", fault);
}

/* Windows of `k` along the i-th spatial axis, `size` long and named `name`. 0: none fits, a fault. */
static int64_t slide(const dl_node *n, int i, const char *name, int64_t size, int64_t k,
                     dl_shape_fault *fault) {
    int64_t lo = dl_node_attr(n, DL_ATTR_pad_lo)->ints[i], hi = dl_node_attr(n, DL_ATTR_pad_hi)->ints[i];
    int64_t stride = dl_node_attr(n, DL_ATTR_stride)->ints[i];
    if (size >= 1 && k >= 1 && size + lo + hi >= k) return (size + lo + hi - k) / stride + 1;
    if (size < 1 || k < 1)
        dl_fault(fault, size < 1 ? 0 : -1, "bad_window",
                 "%s slides a window of %lld along %s=%lld; both must be 1 or more", dl_op_text(n),
                 (long long)k, name, (long long)size);
    else
        dl_fault(fault, 0, "bad_window",
                 "%s: the window of %lld is longer than %s=%lld with its padding (%lld + %lld + %lld = %lld)",
                 dl_op_text(n), (long long)k, name, (long long)size, (long long)lo, (long long)size,
                 (long long)hi, (long long)(size + lo + hi));
    dl_fault_help(fault,
                  "%s must reach %lld: take a larger input, fewer strided layers before it, a smaller window "
                  "or more padding",
                  name, (long long)(k > lo + hi ? k - lo - hi : 1));
    return 0;
}

/* An image-like operand: N, C and one to three named spatial axes. */
static bool want_image(const dl_node *n, int operand, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, operand);
    if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
        return dl_fault(
            fault, operand, "rank_mismatch",
            "%s expects %s with a batch axis, a channel axis and one to three spatial axes, but it is %s",
            dl_op_text(n), dl_operand_text(operand), dl_type_text(x));
    for (int i = 1; i < x->rank; i++)
        if (!*x->axis[i].name)
            return dl_fault(fault, operand, "missing_axis", "%s needs a name for axis %d of %s",
                            dl_op_text(n), i + 1, dl_type_text(x));
    return true;
}

static bool want_weight(const dl_node *n, int operand, int rank, dl_shape_fault *fault) {
    const dl_type *w = dl_operand(n, operand);
    if (w->rank != rank)
        return dl_fault(fault, operand, "rank_mismatch",
                        "%s over %d spatial axes expects a weight [O, C, k...] of %d axes, but it is %s",
                        dl_op_text(n), rank - 2, rank, dl_type_text(w));
    for (int i = 0; i < 2; i++)
        if (w->axis[i].size < 1)
            return dl_fault(fault, operand, "channel_mismatch", "%s needs channels, but its weight is %s",
                            dl_op_text(n), dl_type_text(w));
    return true;
}

static bool want_two_floats(const dl_node *n, dl_shape_fault *fault) {
    return dl_want_float(n, 0, fault) && dl_want_float(n, 1, fault) && dl_want_same_dtype(n, fault);
}

bool dl_rule_conv(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0), *w = dl_operand(n, 1);
    if (!want_two_floats(n, fault) || !want_image(n, 0, fault) || !want_weight(n, 1, x->rank, fault) ||
        !check_window(n, x->rank - 2, fault))
        return false;
    if (x->axis[1].size != w->axis[1].size)
        return dl_fault(fault, 0, "channel_mismatch",
                        "conv weight expects %lld input channels (%s), but the input has %s=%lld",
                        (long long)w->axis[1].size, x->axis[1].name, x->axis[1].name,
                        (long long)x->axis[1].size),
               dl_fault_help(fault,
                             "the weight is %s and the input %s: declare the weight with %lld input channels",
                             dl_type_text(w), dl_type_text(x), (long long)x->axis[1].size);
    *r = dl_row_type(x);
    r->axis[1].size = w->axis[0].size;
    for (int i = 2; i < x->rank; i++) {
        r->axis[i].size = slide(n, i - 2, x->axis[i].name, x->axis[i].size, w->axis[i].size, fault);
        if (!r->axis[i].size) return false;
    }
    return true;
}

/* Along each spatial axis: would windows of k over `size` give what dy (operand `at`) has? */
static bool check_gradient(const dl_node *n, int at, int i, int64_t size, int64_t k, dl_shape_fault *fault) {
    dl_axis dy = dl_operand(n, at)->axis[i];
    int64_t fits = slide(n, i - 2, dy.name, size, k, fault);
    if (!fits) return false;
    if (fits == dy.size) return true;
    dl_fault(fault, at, "axis_mismatch",
             "%s: windows of %lld over %s=%lld with stride %lld make %s=%lld, but %s has %s=%lld",
             dl_op_text(n), (long long)k, dy.name, (long long)size,
             (long long)dl_node_attr(n, DL_ATTR_stride)->ints[i - 2], dy.name, (long long)fits,
             dl_operand_text(at), dy.name, (long long)dy.size);
    return dl_fault_help(fault, "the sizes must be those of one convolution, forward and backward");
}

bool dl_rule_conv_grad_input(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *dy = dl_operand(n, 0), *w = dl_operand(n, 1);
    if (!want_two_floats(n, fault) || !want_image(n, 0, fault) || !want_weight(n, 1, dy->rank, fault) ||
        !check_window(n, dy->rank - 2, fault) ||
        !check_list(n, DL_ATTR_size, dy->rank - 2, 1, "bad_window", fault))
        return false;
    if (dy->axis[1].size != w->axis[0].size)
        return dl_fault(fault, 0, "channel_mismatch",
                        "%s weight expects %lld channels (%s), but its first operand has %s=%lld",
                        dl_op_text(n), (long long)w->axis[0].size, dy->axis[1].name, dy->axis[1].name,
                        (long long)dy->axis[1].size),
               dl_fault_help(
                   fault,
                   "the weight is %s and the operand %s: declare the weight with %lld as its first axis",
                   dl_type_text(w), dl_type_text(dy), (long long)dy->axis[1].size);
    *r = dl_row_type(dy);
    r->axis[1].size = w->axis[1].size;
    for (int i = 2; i < dy->rank; i++) {
        r->axis[i].size = dl_node_attr(n, DL_ATTR_size)->ints[i - 2];
        if (!check_gradient(n, 0, i, r->axis[i].size, w->axis[i].size, fault)) return false;
    }
    return true;
}

bool dl_rule_conv_grad_weight(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0), *dy = dl_operand(n, 1);
    if (!want_two_floats(n, fault) || !want_image(n, 0, fault) || !want_image(n, 1, fault)) return false;
    if (x->rank != dy->rank)
        return dl_fault(fault, 1, "rank_mismatch", "%s has %s and %s, which differ in rank", dl_op_text(n),
                        dl_type_text(x), dl_type_text(dy));
    if (!check_window(n, x->rank - 2, fault) ||
        !check_list(n, DL_ATTR_kernel, x->rank - 2, 1, "bad_window", fault))
        return false;
    for (int i = 0; i < x->rank; i++)
        if (i != 1 && x->axis[i].name != dy->axis[i].name)
            return dl_fault(fault, 1, "axis_mismatch",
                            "%s has %s and %s, whose axes are not the same in the same order", dl_op_text(n),
                            dl_type_text(x), dl_type_text(dy));
    if (x->axis[0].size != dy->axis[0].size)
        return dl_fault(fault, 1, "axis_mismatch",
                        "%s: %s is %lld in the first operand (%s) and %lld in the second operand (%s)",
                        dl_op_text(n), x->axis[0].name, (long long)x->axis[0].size, dl_type_text(x),
                        (long long)dy->axis[0].size, dl_type_text(dy));
    if (x->axis[1].size < 1 || dy->axis[1].size < 1)
        return dl_fault(fault, x->axis[1].size < 1 ? 0 : 1, "channel_mismatch",
                        "%s needs channels, but has %s and %s", dl_op_text(n), dl_type_text(x),
                        dl_type_text(dy));
    *r = dl_scalar(x->dtype);
    dl_type_push(r, "O", dy->axis[1].size);
    r->axis[r->rank++] = x->axis[1];
    for (int i = 2; i < x->rank; i++) {
        int64_t k = dl_node_attr(n, DL_ATTR_kernel)->ints[i - 2];
        if (!check_gradient(n, 1, i, x->axis[i].size, k, fault)) return false;
        dl_type_push(r, dl_internf("k%s", x->axis[i].name), k);
    }
    return true;
}

bool dl_rule_max_pool(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    if (!dl_want_float(n, 0, fault) || !want_image(n, 0, fault) || !check_window(n, x->rank - 2, fault) ||
        !check_list(n, DL_ATTR_kernel, x->rank - 2, 1, "bad_window", fault))
        return false;
    *r = dl_row_type(x);
    for (int i = 2; i < x->rank; i++) {
        int64_t k = dl_node_attr(n, DL_ATTR_kernel)->ints[i - 2];
        int64_t lo = dl_node_attr(n, DL_ATTR_pad_lo)->ints[i - 2],
                hi = dl_node_attr(n, DL_ATTR_pad_hi)->ints[i - 2];
        if (lo >= k || hi >= k)
            return dl_fault(
                       fault, -1, "bad_window",
                       "max_pool pads %s by %lld and %lld, so that windows of %lld would hold padding alone",
                       x->axis[i].name, (long long)lo, (long long)hi, (long long)k),
                   dl_fault_help(fault, "pad by less than the window");
        r->axis[i].size = slide(n, i - 2, x->axis[i].name, x->axis[i].size, k, fault);
        if (!r->axis[i].size) return false;
    }
    return true;
}
