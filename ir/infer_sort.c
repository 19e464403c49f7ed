/* The shape rule of sorting, and its facts for all other folders. */
#include "ir/base/counts.h"
#include "ir/infer_rules.h"
#include "ir/sort.h"

bool dl_rule_argsort(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    int at = dl_rule_axis(n, fault);
    if (at < 0 || !dl_want_switch(n, DL_ATTR_descending, fault)) return false;
    if (x->dtype == DL_BOOL)
        return dl_fault(fault, 0, "type_mismatch", "argsort sorts numbers, not %s",
                        dl_type_text(x));
    if (x->axis[at].size > INT32_MAX)
        return dl_fault(fault, 0, "too_large",
                        "argsort counts in i32, up to 2^31 - 1 elements, but %s is %lld long",
                        x->axis[at].name, (long long)x->axis[at].size);
    *r = dl_row_type(x);
    r->dtype = DL_I32;
    return true;
}

dl_sort dl_sort_of(const dl_node *n) {
    const dl_type *t = &n->in[0]->type;
    dl_around around = dl_type_around(t, dl_type_axis(t, dl_node_name(n, DL_ATTR_axis)));
    return (dl_sort){.descending = dl_node_int(n, DL_ATTR_descending) != 0,
                     .outer = around.outer,
                     .size = around.size,
                     .inner = around.inner};
}

int dl_sort_key_bytes(dl_dtype type) { return type == DL_F64 || type == DL_I64 ? 8 : 4; }

int64_t dl_sort_flops(const dl_node *n) {
    const dl_sort s = dl_sort_of(n);
    int64_t levels = 0;
    while ((int64_t)1 << levels < s.size) levels++;
    return dl_count_times(levels, dl_type_count(&n->in[0]->type));
}
