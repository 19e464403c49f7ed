/* The shape rule of complex contractions; their facts for all other folders. */
#include "ir/base/counts.h"
#include "ir/complex.h"
#include "ir/fourier.h"
#include "ir/infer_rules.h"

static const dl_type *tensor(const dl_node *n, int i) {
    return i == DL_COMPLEX_Y ? &n->out[0].type : &n->in[i]->type;
}

/* a, b and the result end in a common axis and in Z. */
static bool check_ends(const dl_node *n, dl_shape_fault *fault) {
    const char *last = NULL;
    for (int i = 0; i < DL_COMPLEX_TENSORS; i++) {
        const dl_type *t = tensor(n, i);
        int operand = i == DL_COMPLEX_Y ? -1 : i;
        if (t->rank < 2 || !dl_fourier_is_complex(t))
            return dl_fault(fault, operand, "axis_mismatch",
                            "complex_contract is of complex numbers, whose last axis is Z=2, not "
                            "of %s",
                            dl_type_text(t));
        const char *own = t->axis[t->rank - 2].name;
        if (!*own || (last && own != last) || dl_node_lists(n, DL_ATTR_over, own))
            return dl_fault(fault, operand, "axis_mismatch",
                            "complex_contract wants the same batch axis in front of Z in both "
                            "operands and the result, but one is %s",
                            dl_type_text(t));
        last = own;
    }
    return true;
}

/* Each axis is in two of the three, or in all: an axis of `over` in both operands alone. */
static bool check_axes(const dl_node *n, dl_shape_fault *fault) {
    for (int i = 0; i < DL_COMPLEX_TENSORS; i++)
        for (int k = 0; k < tensor(n, i)->rank; k++) {
            dl_axis axis = tensor(n, i)->axis[k];
            int has = 0;
            for (int j = 0; j < DL_COMPLEX_TENSORS; j++) {
                int at = dl_type_axis(tensor(n, j), axis.name);
                if (at >= 0 && tensor(n, j)->axis[at].size != axis.size)
                    return dl_fault(fault, i == DL_COMPLEX_Y ? -1 : i, "axis_mismatch",
                                    "complex_contract: %s is %lld and %lld", axis.name,
                                    (long long)axis.size, (long long)tensor(n, j)->axis[at].size);
                has |= (at >= 0) << j;
            }
            bool over = dl_node_lists(n, DL_ATTR_over, axis.name);
            if ((over && has != 3) || (!over && (!(has & 4) || has == 4)))
                return dl_fault(fault, i == DL_COMPLEX_Y ? -1 : i, "axis_mismatch",
                                "complex_contract: axis %s is %s", axis.name,
                                over ? "summed, and not in both operands alone"
                                     : "not summed, and not in the result and an operand");
        }
    return true;
}

bool dl_rule_complex_contract(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_attr *conj = dl_node_attr(n, DL_ATTR_conj);
    *r = dl_row_type(&n->out[0].type);
    if (!dl_want_same_dtype(n, fault)) return false;
    if ((r->dtype != DL_F32 && r->dtype != DL_F64) || r->dtype != tensor(n, 0)->dtype)
        return dl_fault(fault, 0, "type_mismatch",
                        "complex_contract is in f32 or f64, and makes no %s of %s", dl_type_text(r),
                        dl_type_text(tensor(n, 0)));
    if (conj->n != 2 || (conj->ints[0] | conj->ints[1]) >> 1)
        return dl_fault(fault, -1, "bad_attribute",
                        "complex_contract's `conj` is a 0 or 1 for each operand");
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    for (int i = 0; i < over->n; i++)
        if (dl_type_axis(tensor(n, 0), over->names[i]) < 0)
            return dl_fault(fault, 0, "missing_axis",
                            "complex_contract sums over %s, which %s lacks", over->names[i],
                            dl_type_text(tensor(n, 0)));
    return check_ends(n, fault) && check_axes(n, fault);
}

static void push(dl_complex_axes *to, int64_t size, const int64_t stride[DL_COMPLEX_TENSORS]) {
    to->size[to->n] = size, to->count *= size;
    for (int i = 0; i < DL_COMPLEX_TENSORS; i++) to->stride[i][to->n] = stride[i];
    to->n++;
}

/* Axes of tensor `of` that are not lanes and, by a bit for each tensor, are in `has`. */
static dl_complex_axes find(const dl_node *n, int of, int has, int joined) {
    dl_complex_axes found = {.count = 1};
    for (int k = 0; k < tensor(n, of)->rank - 1 - joined; k++) {
        int64_t strides[DL_MAX_RANK], stride[DL_COMPLEX_TENSORS] = {0};
        int in = 0;
        for (int i = 0; i < DL_COMPLEX_TENSORS; i++) {
            int at = dl_type_axis(tensor(n, i), tensor(n, of)->axis[k].name);
            if (at < 0) continue;
            dl_type row = dl_row_type(tensor(n, i));
            dl_type_strides(&row, strides);
            stride[i] = strides[at] / 2, in |= 1 << i;
        }
        if (in == has) push(&found, tensor(n, of)->axis[k].size, stride);
    }
    return found;
}

dl_complex_contract dl_complex_contract_of(const dl_node *n) {
    const dl_type *y = tensor(n, DL_COMPLEX_Y);
    const dl_attr *conj = dl_node_attr(n, DL_ATTR_conj);
    int joined = 0; /* axes in front of Z that are lanes */
    dl_complex_contract c = {.lanes = 1, .conj = {conj->ints[0], conj->ints[1]}};
    for (bool same = true; same; joined += same) {
        const char *name = y->rank - 2 - joined >= 0 ? y->axis[y->rank - 2 - joined].name : "";
        for (int i = 0; i < DL_COMPLEX_TENSORS; i++) {
            int at = tensor(n, i)->rank - 2 - joined;
            same = same && *name && at >= 0 && tensor(n, i)->axis[at].name == name;
        }
        if (same) c.lanes *= y->axis[y->rank - 2 - joined].size;
    }
    c.batch = find(n, DL_COMPLEX_Y, 7, joined), c.rows = find(n, DL_COMPLEX_Y, 5, joined);
    c.columns = find(n, DL_COMPLEX_Y, 6, joined), c.terms = find(n, DL_COMPLEX_A, 3, joined);
    return c;
}

void dl_complex_offsets(const dl_complex_axes *axes, int64_t i, int64_t at[DL_COMPLEX_TENSORS]) {
    for (int t = 0; t < DL_COMPLEX_TENSORS; t++) at[t] = 0;
    for (int k = axes->n - 1; k >= 0; k--) {
        for (int t = 0; t < DL_COMPLEX_TENSORS; t++)
            at[t] += i % axes->size[k] * axes->stride[t][k];
        i /= axes->size[k];
    }
}

int64_t dl_complex_flops(const dl_node *n) {
    dl_complex_contract c = dl_complex_contract_of(n);
    const int64_t counts[] = {c.lanes, c.batch.count, c.rows.count, c.columns.count, c.terms.count};
    int64_t flops = 8;
    for (int i = 0; i < 5; i++) flops = dl_count_times(flops, counts[i]);
    return flops;
}
