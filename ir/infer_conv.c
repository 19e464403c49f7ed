/* Shape rules of contractions by windows and of pooling: the number of windows along an axis.
 *
 * Contractions by windows have one relation (relation.h) between x [N, C, s...], w [O, C / groups,
 * k...] and y [N, O, s'...]:
 *
 *   s' = floor((s + pad_lo + pad_hi - k) / stride) + 1        along every spatial axis
 *
 * They differ only in which of the three is the result. */
#include "ir/infer_rules.h"
#include "ir/relation.h"

/* Larger attributes are refused before arithmetic uses them. */
static const int64_t huge = (int64_t)1 << 47, most_phases = 1 << 15, longest_resized = 1 << 30;
enum { MAX_SPATIAL = 3 };

/* A list with an entry for each axis: the length is right, every entry is from `least` to 2^47. */
static bool check_list(const dl_node *n, dl_attr_id id, int spatial, int64_t least,
                       const char *code, dl_shape_fault *fault) {
    const dl_attr *a = dl_node_attr(n, id);
    if (a->n != spatial)
        return dl_fault(fault, -1, code, "%s has %d spatial axes, but '%s' has %d entries",
                        dl_op_text(n), spatial, dl_attrs[id].name, a->n);
    for (int i = 0; i < spatial; i++)
        if (a->ints[i] < least || a->ints[i] > huge)
            return dl_fault(fault, -1, code,
                            "%s: entry %d of '%s' is %lld; it must be %lld or more%s",
                            dl_op_text(n), i + 1, dl_attrs[id].name, (long long)a->ints[i],
                            (long long)least, a->ints[i] > huge ? " and at most 2^47" : "");
    return true;
}

static bool check_window(const dl_node *n, int spatial, dl_shape_fault *fault) {
    return check_list(n, DL_ATTR_stride, spatial, 1, "bad_stride", fault) &&
           check_list(n, DL_ATTR_pad_lo, spatial, 0, "bad_window", fault) &&
           check_list(n, DL_ATTR_pad_hi, spatial, 0, "bad_window", fault) &&
           (!dl_node_attr(n, DL_ATTR_dilation) ||
            check_list(n, DL_ATTR_dilation, spatial, 1, "bad_window", fault));
}

/* The first operand that is an image: x or y. */
static int image_of(const dl_node *n) { return dl_op_tensor(n->op, 0) == DL_TENSOR_W ? 1 : 0; }

/* The number of windows of `k` along the i-th spatial axis, `size` long and named `name`. 0: none
 * fits, a fault. */
static int64_t count_windows(const dl_node *n, const dl_windows *w, int i, const char *name,
                             int64_t size, int64_t k, dl_shape_fault *fault) {
    int64_t count = dl_windows_count(w, i, size, k), lo = w->pad_lo[i], hi = w->pad_hi[i];
    if (count) return count;
    if (size < 1 || k < 1)
        dl_fault(fault, size < 1 ? image_of(n) : -1, "bad_window",
                 "%s slides a window of %lld along %s=%lld; both must be 1 or more", dl_op_text(n),
                 (long long)k, name, (long long)size);
    else {
        int64_t reach;
        if (__builtin_mul_overflow(k - 1, w->dilation[i], &reach) || reach > huge) reach = huge;
        const char *spread =
            w->dilation[i] == 1
                ? ""
                : dl_internf(" with dilation %lld, which reaches over %s%lld,",
                             (long long)w->dilation[i], reach == huge ? "more than " : "",
                             (long long)reach + (reach < huge));
        dl_fault(fault, image_of(n), "bad_window",
                 "%s: the window of %lld%s is longer than %s=%lld with its padding (%lld + %lld + "
                 "%lld = %lld)",
                 dl_op_text(n), (long long)k, spread, name, (long long)size, (long long)lo,
                 (long long)size, (long long)hi, (long long)(size + lo + hi));
        k = reach + 1;
    }
    dl_fault_help(
        fault,
        "%s must reach %lld: take a larger input, fewer strided layers before it, a smaller window "
        "or more padding",
        name, (long long)(k > lo + hi ? k - lo - hi : 1));
    return 0;
}

/* An image operand must have N, C and one to three named spatial axes. */
static bool want_image(const dl_node *n, int operand, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, operand);
    if (x->rank < 3 || x->rank > 2 + MAX_SPATIAL)
        return dl_fault(fault, operand, "rank_mismatch",
                        "%s expects %s with a batch axis, a channel axis and one to three spatial "
                        "axes, but it is %s",
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
        return dl_fault(
            fault, operand, "rank_mismatch",
            "%s over %d spatial axes expects a weight [O, C, k...] of %d axes, but it is %s",
            dl_op_text(n), rank - 2, rank, dl_type_text(w));
    for (int i = 0; i < 2; i++)
        if (w->axis[i].size < 1)
            return dl_fault(fault, operand, "channel_mismatch",
                            "%s needs channels, but its weight is %s", dl_op_text(n),
                            dl_type_text(w));
    return true;
}

/* The number of groups must divide the number of channels. */
static bool check_groups(const dl_node *n, const dl_windows *v, dl_axis channels,
                         dl_shape_fault *fault) {
    if (channels.size % v->groups == 0) return true;
    return dl_fault(fault, -1, "channel_mismatch", "%s: %s=%lld does not divide into %lld groups",
                    dl_op_text(n), channels.name, (long long)channels.size, (long long)v->groups),
           dl_fault_help(fault, "the numbers of channels, in and out, are multiples of the groups");
}

/* The type of y, from windows of w over x. */
static bool make_y(const dl_node *n, const dl_windows *v, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, dl_op_place(n->op, DL_TENSOR_X)),
                  *w = dl_operand(n, dl_op_place(n->op, DL_TENSOR_W));
    if (!check_groups(n, v, w->axis[0], fault)) return false;
    if (x->axis[1].size % v->groups || x->axis[1].size / v->groups != w->axis[1].size)
        return dl_fault(fault, image_of(n), "channel_mismatch",
                        "%s weight expects %lld input channels (%s), but the input has %s=%lld",
                        dl_op_text(n), (long long)w->axis[1].size * (long long)v->groups,
                        x->axis[1].name, x->axis[1].name, (long long)x->axis[1].size),
               dl_fault_help(
                   fault,
                   "the weight is %s and the input %s: declare the weight with %lld input channels",
                   dl_type_text(w), dl_type_text(x), (long long)(x->axis[1].size / v->groups));
    *r = dl_row_type(x);
    r->axis[1].size = w->axis[0].size;
    for (int i = 2; i < x->rank; i++) {
        r->axis[i].size =
            count_windows(n, v, i - 2, x->axis[i].name, x->axis[i].size, w->axis[i].size, fault);
        if (!r->axis[i].size) return false;
    }
    return true;
}

/* Checks a spatial axis: do windows of size k over `size` give y's size? */
static bool check_gradient(const dl_node *n, const dl_windows *v, int i, int64_t size, int64_t k,
                           dl_shape_fault *fault) {
    int at = dl_op_place(n->op, DL_TENSOR_Y);
    dl_axis y = dl_operand(n, at)->axis[i];
    int64_t fits = count_windows(n, v, i - 2, y.name, size, k, fault);
    if (!fits) return false;
    if (fits == y.size) return true;
    dl_fault(fault, at, "axis_mismatch",
             "%s: windows of %lld over %s=%lld with stride %lld make %s=%lld, but %s has %s=%lld",
             dl_op_text(n), (long long)k, y.name, (long long)size, (long long)v->stride[i - 2],
             y.name, (long long)fits, dl_operand_text(at), y.name, (long long)y.size);
    return dl_fault_help(fault, "the sizes must be those of one convolution, forward and backward");
}

/* x has the spatial sizes of the attribute `size`. */
static bool make_x(const dl_node *n, const dl_windows *v, dl_type *r, dl_shape_fault *fault) {
    const dl_type *y = dl_operand(n, dl_op_place(n->op, DL_TENSOR_Y)),
                  *w = dl_operand(n, dl_op_place(n->op, DL_TENSOR_W));
    if (!check_list(n, DL_ATTR_size, v->n, 1, "bad_window", fault)) return false;
    if (y->axis[1].size != w->axis[0].size)
        return dl_fault(fault, image_of(n), "channel_mismatch",
                        "%s weight expects %lld channels (%s), but its first operand has %s=%lld",
                        dl_op_text(n), (long long)w->axis[0].size, y->axis[1].name, y->axis[1].name,
                        (long long)y->axis[1].size),
               dl_fault_help(fault,
                             "the weight is %s and the operand %s: declare the weight with %lld as "
                             "its first axis",
                             dl_type_text(w), dl_type_text(y), (long long)y->axis[1].size);
    if (!check_groups(n, v, y->axis[1], fault)) return false;
    *r = dl_row_type(y);
    r->axis[1].size = w->axis[1].size * v->groups;
    for (int i = 2; i < y->rank; i++) {
        r->axis[i].size = dl_node_attr(n, DL_ATTR_size)->ints[i - 2];
        if (!check_gradient(n, v, i, r->axis[i].size, w->axis[i].size, fault)) return false;
    }
    return true;
}

/* The images of a weight gradient must be alike except for their channels. */
static bool check_images(const dl_node *n, const dl_type *x, const dl_type *y,
                         dl_shape_fault *fault) {
    for (int i = 0; i < x->rank; i++)
        if (i != 1 && x->axis[i].name != y->axis[i].name)
            return dl_fault(fault, 1, "axis_mismatch",
                            "%s has %s and %s, whose axes are not the same in the same order",
                            dl_op_text(n), dl_type_text(x), dl_type_text(y));
    if (x->axis[0].size != y->axis[0].size)
        return dl_fault(
            fault, 1, "axis_mismatch",
            "%s: %s is %lld in the first operand (%s) and %lld in the second operand (%s)",
            dl_op_text(n), x->axis[0].name, (long long)x->axis[0].size, dl_type_text(x),
            (long long)y->axis[0].size, dl_type_text(y));
    if (x->axis[1].size < 1 || y->axis[1].size < 1)
        return dl_fault(fault, x->axis[1].size < 1 ? 0 : 1, "channel_mismatch",
                        "%s needs channels, but has %s and %s", dl_op_text(n), dl_type_text(x),
                        dl_type_text(y));
    return true;
}

/* w [O, C, k...] has the window sizes of the attribute `kernel`. Its axes are O, the name of x's
 * channels, and k followed by the name of each spatial axis; the channels get another name where
 * that is taken. */
static bool make_w(const dl_node *n, const dl_windows *v, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, dl_op_place(n->op, DL_TENSOR_X)),
                  *y = dl_operand(n, dl_op_place(n->op, DL_TENSOR_Y));
    if (!check_list(n, DL_ATTR_kernel, v->n, 1, "bad_window", fault) ||
        !check_images(n, x, y, fault) || !check_groups(n, v, x->axis[1], fault) ||
        !check_groups(n, v, y->axis[1], fault))
        return false;
    *r = dl_scalar(x->dtype);
    dl_type_push(r, "O", y->axis[1].size);
    dl_type_push(r, "", x->axis[1].size / v->groups);
    for (int i = 2; i < x->rank; i++) {
        int64_t k = dl_node_attr(n, DL_ATTR_kernel)->ints[i - 2];
        if (!check_gradient(n, v, i, x->axis[i].size, k, fault)) return false;
        dl_type_push(r, dl_internf("k%s", x->axis[i].name), k);
    }
    const char *channels = x->axis[1].name;
    for (int i = 0; dl_type_axis(r, channels) >= 0; i++)
        channels = i ? dl_internf("I%d", i) : dl_intern("I");
    r->axis[1].name = channels;
    return true;
}

static bool want_tensor(const dl_node *n, int operand, int rank, dl_shape_fault *fault) {
    return dl_op_tensor(n->op, operand) == DL_TENSOR_W ? want_weight(n, operand, rank, fault)
                                                       : want_image(n, operand, fault);
}

bool dl_rule_windows(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    typedef bool maker(const dl_node *n, const dl_windows *v, dl_type *r, dl_shape_fault *fault);
    static maker *const make[DL_NTENSORS] = {
        [DL_TENSOR_X] = make_x, [DL_TENSOR_W] = make_w, [DL_TENSOR_Y] = make_y};
    const dl_type *x = dl_operand(n, 0), *second = dl_operand(n, 1);
    dl_dtype product;
    if (!dl_want_factors(n, &product, fault) || !want_tensor(n, 0, x->rank, fault) ||
        !want_tensor(n, 1, x->rank, fault))
        return false;
    if (x->rank != second->rank)
        return dl_fault(fault, 1, "rank_mismatch", "%s has %s and %s, which differ in rank",
                        dl_op_text(n), dl_type_text(x), dl_type_text(second));
    if (!check_window(n, x->rank - 2, fault)) return false;
    dl_windows v = dl_node_windows(n);
    int64_t phases = 1; /* of the data gradient; each has its own code */
    for (int i = 0; i < v.n && phases <= most_phases; i++)
        phases = v.stride[i] > most_phases ? v.stride[i] : phases * v.stride[i];
    if (phases > most_phases)
        return dl_fault(fault, -1, "bad_stride", "%s: the strides multiply to more than %lld",
                        dl_op_text(n), (long long)most_phases),
               dl_fault_help(fault,
                             "take a smaller stride, and every n-th of the results: y[W=::2]");
    if (v.groups < 1 || v.groups > huge)
        return dl_fault(fault, -1, "bad_window", "%s: 'groups' is %lld; it must be 1 or more",
                        dl_op_text(n), (long long)v.groups);
    if (!make[dl_op_tensor(n->op, DL_RESULT_PLACE)](n, &v, r, fault)) return false;
    r->dtype = product;
    return true;
}

/* PyTorch pads by at most half the window: then every window contains an element of the axis. */
static bool check_padding(const dl_node *n, dl_axis axis, int64_t lo, int64_t hi, int64_t k,
                          dl_shape_fault *fault) {
    if (lo <= k / 2 && hi <= k / 2) return true;
    if (lo + hi < k && lo <= hi && hi - lo <= 1) return true; /* padding `same` */
    return dl_fault(fault, -1, "bad_window",
                    "%s pads %s by %lld and %lld, more than half its window of %lld", dl_op_text(n),
                    axis.name, (long long)lo, (long long)hi, (long long)k),
           dl_fault_help(fault, "pad by %lld at most", (long long)(k / 2));
}

bool dl_rule_pool(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    const dl_attr *dilation = dl_node_attr(n, DL_ATTR_dilation);
    if (!dl_want_float(n, 0, fault) || !want_image(n, 0, fault) ||
        !check_window(n, x->rank - 2, fault) ||
        !check_list(n, DL_ATTR_kernel, x->rank - 2, 1, "bad_window", fault) ||
        (dilation && !check_list(n, DL_ATTR_dilation, x->rank - 2, 1, "bad_window", fault)))
        return false;
    if (2 * x->rank - 2 > DL_MAX_RANK)
        return dl_fault(fault, 0, "rank_mismatch", "%s: too many axes in %s", dl_op_text(n),
                        dl_type_text(x));
    *r = dl_row_type(x);
    dl_windows v = dl_node_windows(n);
    for (int i = 2; i < x->rank; i++) {
        int64_t k = dl_node_attr(n, DL_ATTR_kernel)->ints[i - 2];
        if (!check_padding(n, x->axis[i], v.pad_lo[i - 2], v.pad_hi[i - 2], k, fault)) return false;
        r->axis[i].size = count_windows(n, &v, i - 2, x->axis[i].name, x->axis[i].size, k, fault);
        if (!r->axis[i].size) return false;
    }
    return true;
}

bool dl_rule_resize(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    if (!dl_want_float(n, 0, fault) || !want_image(n, 0, fault) ||
        !check_list(n, DL_ATTR_size, x->rank - 2, 1, "bad_window", fault))
        return false;
    *r = dl_row_type(x);
    for (int i = 2; i < x->rank; i++) {
        r->axis[i].size = dl_node_attr(n, DL_ATTR_size)->ints[i - 2];
        if (x->axis[i].size < 1)
            return dl_fault(fault, 0, "bad_window", "%s: there is no element along %s",
                            dl_op_text(n), x->axis[i].name);
        int64_t from = x->axis[i].size, to = r->axis[i].size, longer = from > to ? from : to;
        if (longer >= longest_resized && from != to &&
            !(to == 1 && n->op == DL_OP_adaptive_avg_pool))
            return dl_fault(fault, 0, "too_large",
                            "%s makes %lld elements of %s=%lld: up to 2^30 are possible",
                            dl_op_text(n), (long long)to, x->axis[i].name, (long long)from);
    }
    const char *mode = dl_node_attr(n, DL_ATTR_mode) ? dl_node_name(n, DL_ATTR_mode) : "nearest";
    return strcmp(mode, "nearest") == 0 || strcmp(mode, "linear") == 0 ||
           dl_fault(fault, -1, "bad_range", "%s is nearest or linear, not '%s'", dl_op_text(n),
                    mode);
}
