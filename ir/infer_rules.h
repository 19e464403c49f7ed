/* Private to infer*.c: the rules by name, and their shared helpers.
 *
 * A rule may rely on the operands and attributes that the op's row promises. dl_infer_type then
 * checks the results that it fills. */
#ifndef DL_INFER_RULES_H
#define DL_INFER_RULES_H
#include "ir/infer.h"

typedef bool dl_rule(const dl_node *n, dl_type *result, dl_shape_fault *fault);
#define OP(id, text, arity, class, infer, ...) dl_rule dl_rule_##infer;
#include "ir/ops.def"
#undef OP

/* Fills the fault; both return false. The help is empty until dl_fault_help is called. */
bool dl_fault(dl_shape_fault *fault, int operand, const char *code, const char *format, ...)
    DL_PRINTF(4, 5);
bool dl_fault_help(dl_shape_fault *fault, const char *format, ...) DL_PRINTF(2, 3);

static inline const char *dl_op_text(const dl_node *n) { return dl_ops[n->op].name; }
static inline const dl_type *dl_operand(const dl_node *n, int i) { return &n->in[i]->type; }
/* "the first operand", ... */
const char *dl_operand_text(int i);
/* The type with row-major layout; rules derive results from it. */
dl_type dl_row_type(const dl_type *t);

/* infer_type.c: dl_infer_type without the limit on the number of elements. */
bool dl_infer_axes(const dl_type *t, dl_shape_fault *fault);

/* ---- checks of operands and attributes: infer_wants.c ---- */

/* The index of the axis that attribute `axis` names in operand 0, or -1 and a fault that lists the
 * axes. */
int dl_rule_axis(const dl_node *n, dl_shape_fault *fault);
/* Is attribute `rate` from 0 to 1? */
bool dl_want_rate(const dl_node *n, dl_shape_fault *fault);
/* Is this attribute, where it is given, 1 or 0? */
bool dl_want_switch(const dl_node *n, dl_attr_id id, dl_shape_fault *fault);
/* Checks of operands: equal element types; a floating-point type; a given rank. */
bool dl_want_same_dtype(const dl_node *n, dl_shape_fault *fault);
/* Two floats of one type, or a 16-bit float and an f32 one, whose product has 16 bits. Only passes
 * write the mixed case: for a weight that is read without a cast
 * (passes/precision/cast_weights_once.c). */
bool dl_want_factors(const dl_node *n, dl_dtype *product, dl_shape_fault *fault);
bool dl_want_float(const dl_node *n, int operand, dl_shape_fault *fault);
bool dl_want_rank(const dl_node *n, int operand, int rank, const char *form, dl_shape_fault *fault);
#endif
