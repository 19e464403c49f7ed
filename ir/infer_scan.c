/* The shape rules of linear scans, as composites and as a template; their facts for all other
 * folders. */
#include <string.h>

#include "ir/base/counts.h"
#include "ir/base/str.h"
#include "ir/infer_rules.h"
#include "ir/scan.h"

static bool has_axis(const dl_node *n, const dl_type *t, dl_shape_fault *fault) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    return dl_type_axis(t, axis) >= 0 ||
           dl_fault(fault, 0, "missing_axis", "%s goes along %s, which %s lacks", dl_op_text(n),
                    axis, dl_type_text(t));
}

bool dl_rule_cumulative(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    return dl_want_switch(n, DL_ATTR_reverse, fault) && dl_rule_axis(n, fault) >= 0 &&
           dl_rule_elem(n, r, fault);
}

/* a and b are broadcast to each other. */
bool dl_rule_linear_scan(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    return dl_want_switch(n, DL_ATTR_reverse, fault) && dl_want_same_dtype(n, fault) &&
           dl_rule_elem(n, r, fault) && has_axis(n, r, fault);
}

bool dl_rule_scan_linear(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const char *mode = dl_node_name(n, DL_ATTR_mode);
    if (n->nin > 2)
        return dl_fault(fault, -1, "wrong_arity", "%s takes 1 or 2 operands, not %d", dl_op_text(n),
                        n->nin);
    if (strcmp(mode, "own") != 0 && strcmp(mode, "before") != 0)
        return dl_fault(fault, -1, "bad_attribute", "%s's mode is own or before, not %s",
                        dl_op_text(n), mode);
    const dl_type *b = dl_operand(n, DL_SCAN_B);
    if (b->dtype == DL_BOOL)
        return dl_fault(fault, DL_SCAN_B, "type_mismatch", "%s works on numbers, not on %s",
                        dl_op_text(n), dl_type_text(b));
    *r = dl_row_type(b);
    if (!dl_want_switch(n, DL_ATTR_reverse, fault) || !has_axis(n, b, fault)) return false;
    return n->nin == 1 || dl_type_same(dl_operand(n, DL_SCAN_A), r) ||
           dl_fault(fault, DL_SCAN_A, "axis_mismatch", "%s expects factors as %s, but they are %s",
                    dl_op_text(n), dl_type_text(r), dl_type_text(dl_operand(n, DL_SCAN_A)));
}

bool dl_scan_is_reverse(const dl_node *n) {
    const dl_attr *reverse = dl_node_attr(n, DL_ATTR_reverse);
    return reverse && reverse->i;
}

dl_scan dl_scan_of(const dl_node *n) {
    const dl_type *t = &n->out[0].type;
    dl_around around = dl_type_around(t, dl_type_axis(t, dl_node_name(n, DL_ATTR_axis)));
    return (dl_scan){.has_factors = n->nin > DL_SCAN_A,
                     .reverse = dl_scan_is_reverse(n),
                     .before = strcmp(dl_node_name(n, DL_ATTR_mode), "before") == 0,
                     .outer = around.outer,
                     .steps = around.size,
                     .inner = around.inner};
}

int64_t dl_scan_flops(const dl_node *n) {
    return dl_count_times(n->nin > DL_SCAN_A ? 2 : 1, dl_type_count(&n->out[0].type));
}
