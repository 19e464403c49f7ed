/* Shape and type rules: the result types of each op, or the fault of operands that do not fit.
 *
 * There is a rule for each row of ops.def (its column `infer`; infer_rules.h). The front end turns
 * a fault into a diagnostic with a caret. The validator infers every node again after every
 * pass. */
#ifndef DL_INFER_H
#define DL_INFER_H
#include "ir/graph.h"

/* A fault in words, with axis names and sizes; `operand` is the operand that the message points at
 * (-1: the op). */
typedef struct {
    int operand;
    const char *code; /* the front end's diagnostic name, e.g. "axis_mismatch" (diag.def) */
    char message[400];
    char help[200]; /* how to fix it; may be empty */
} dl_shape_fault;

/* The types of a node's dl_op_results results (for a fused node: of the first); its operands and
 * attributes are set, and `result` has room for DL_MAX_RESULTS. For ops whose row says `given`
 * (and for broadcast, cast, rename, relayout, const, iota, squeeze-free moves) node->out[0].type
 * is checked instead of computed. False: *fault is filled. Layouts are ROW unless the op
 * determines one. A wrong number of operands or attributes is a fault too ("wrong_arity",
 * "bad_attribute"), so the node need not be valid. */
bool dl_infer(const dl_node *node, dl_type *result, dl_shape_fault *fault);

/* The same, but the results' sizes may multiply to any number of elements. */
bool dl_infer_any_size(const dl_node *node, dl_type *result, dl_shape_fault *fault);

/* Is the type legal by itself? It has at most DL_MAX_RANK axes with different names (an axis
 * without a name has size 1), sizes of 0 or more whose product, with zeros taken as ones, is at
 * most 2^47, and a layout that its rank allows. The fault has operand -1. For declared variables
 * and parsed types; dl_infer checks every result with it. */
bool dl_infer_type(const dl_type *type, dl_shape_fault *fault);

/* The operand whose order of axes the result takes: the first one that has all named axes of all
 * operands; -1: none has. */
int dl_infer_leader(const dl_type *const *operands, int n);

/* The common type of ELEM operands: the union of the named axes, in an order that respects every
 * operand where they agree. Where they do not, the leader comes first, and then an operand before
 * later ones. Axes that no operand orders are in order of first appearance. Axes of equal names
 * must have equal sizes. */
bool dl_infer_broadcast(const dl_type *const *operands, int n, dl_type *result,
                        dl_shape_fault *fault);
#endif
