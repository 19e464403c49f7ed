/* Shape and type rules: the result types of each op, or the fault of operands that do not fit.
 *
 * One rule a row of ops.def (its column `infer`; infer_rules.h). The same rules serve the front
 * end, which turns a fault into a caret diagnostic, and the validator, which re-infers every node
 * after every pass. */
#ifndef DL_INFER_H
#define DL_INFER_H
#include "ir/graph.h"

/* A fault in words, with axis names and sizes; `operand` is the operand to point at (-1: the op
 * itself). */
typedef struct {
    int operand;
    const char *code; /* the front end's diagnostic name, e.g. "axis_mismatch" (diag.def) */
    char message[400];
    char help[200]; /* how to fix it; may be empty */
} dl_shape_fault;

/* Types of a node's dl_op_results results (a fused node: of the first), whose operands and
 * attributes are set; `result` has room for DL_MAX_RESULTS. For ops whose row says `given` (and for
 * broadcast, cast, rename, relayout, const, iota, squeeze-free moves) node->out[0].type is checked
 * instead of computed. False: *fault is filled. Layouts: ROW is returned unless the op states one.
 * A wrong number of operands or attributes is a fault too ("wrong_arity", "bad_attribute"), so any
 * node may be asked about. */
bool dl_infer(const dl_node *node, dl_type *result, dl_shape_fault *fault);

/* The same, but the results' sizes may multiply to any number of elements. */
bool dl_infer_any_size(const dl_node *node, dl_type *result, dl_shape_fault *fault);

/* Is the type legal by itself: at most DL_MAX_RANK axes, different names (an axis without a name
 * has size 1), sizes of 0 or more whose product, zeros taken as ones, stays within 2^47, and a
 * layout that its rank allows. Operand -1 in the fault. For declared variables and parsed types;
 * dl_infer asks it of every result. */
bool dl_infer_type(const dl_type *type, dl_shape_fault *fault);

/* The operand that gives the result of an op with several operands the order of its axes: the first
 * that has all named axes of all operands; -1 where none has, and the axes stand in order of
 * appearance. */
int dl_infer_leader(const dl_type *const *operands, int n);

/* The common type of ELEM operands, and the one place that orders their axes: the union of the
 * named axes in the leader's order, or in order of appearance where no operand leads; sizes equal
 * by name. */
bool dl_infer_broadcast(const dl_type *const *operands, int n, dl_type *result,
                        dl_shape_fault *fault);
#endif
