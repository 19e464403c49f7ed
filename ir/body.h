/* The op scan: a graph of its own, the body, once for each step along an axis, forwards or
 * backwards. It is compiled once; time and memory are linear in the steps.
 *
 * A body is a graph as any other, in small: what one step computes. Its variables are the node's
 * operands, in their order, and their roles say what a step finds there:
 *
 *   input   the step's slice of the operand, [T, ...], whose first axis is the steps'
 *   param   the operand, the same at every step
 *   state   at the first step the operand, later what the step before left
 *
 * Its results are the node's, in their order:
 *
 *   update  of a state, of which each has one: the state after the last step
 *   output  the values of all steps, [T, ...]
 *
 * The body's values are its own: a tensor of the graph around it comes in as an operand. A step
 * draws no random numbers, and changes no variable of the model.
 *
 * The gradient is a scan in the other direction (passes/grad/grad_body.c). */
#ifndef DL_BODY_H
#define DL_BODY_H
#include "ir/builder.h"

typedef struct {
    const char *axis;
    int64_t steps;
    bool reverse;
    bool recompute; /* for the backward pass only the states are stored */
} dl_steps;

/* A new body, empty, of a node that will be in this graph. */
dl_graph *dl_body_new(dl_graph *around);
/* The same with a name that a module's text gives. */
dl_graph *dl_body_named(dl_module *m, const char *name);
/* A body's variable for an operand, or the value of a step; `stack` is of all steps, [T, ...]. */
dl_type dl_body_slice(dl_type stack);
dl_type dl_body_stack(dl_type slice, const char *axis, int64_t steps);
/* Appends copies of all nodes of a graph to another one. `now`, by value id of the former: the
 * value that stands for each of its variables, and then for each of its values. */
void dl_graph_copy_nodes(dl_graph *to, const dl_graph *from, dl_value **now);
/* A copy of the body, of a node that will be in `around`. */
dl_graph *dl_body_copy(dl_graph *around, const dl_graph *body);
/* The kernels of a graph, followed by those of its nodes' bodies: their number, and all of them. */
int dl_graph_kernels(const dl_graph *g);
dl_kernel **dl_graph_kernel_list(const dl_graph *g, dl_arena *arena);
/* The kernels of all graphs of a module, one graph after the other. */
dl_kernel **dl_module_kernel_list(const dl_module *m, dl_arena *arena, int *n);
/* The graph has come into its module from another one: so do its bodies, with new names. */
void dl_bodies_follow(dl_graph *g);
/* Appends a scan of a complete body; `in` has an operand for each of its variables. */
dl_node *dl_build_scan(dl_builder *b, dl_graph *body, dl_value *const *in, dl_steps steps);
/* Adds an output to the body of a scan and the result to the node; returns the latter. A node takes
 * as many as its body has states and DL_SCAN_KEPT more, in addition to the results that it was
 * built with. */
dl_value *dl_scan_add_output(dl_graph *around, dl_node *n, const char *name, dl_value *v);

/* The number of the result that is a state's value after a step: a complete body has one. */
int dl_body_update(const dl_graph *body, const dl_var *state);

dl_steps dl_steps_of(const dl_node *n);
/* The type of the node's result k, by its body. */
dl_type dl_scan_result_type(const dl_node *n, int k);
/* The layout that the node's operand k, or its result k - n->nin, has by its body. */
dl_layout dl_scan_layout(const dl_node *n, int k);
/* The bytes of one step in a stack: from a step's slice to the next one's. */
int64_t dl_scan_stride(const dl_type *stack);
#endif
