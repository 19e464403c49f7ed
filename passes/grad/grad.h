/* Gradient rules: one function for each name in the `grad` column of ops.def. Private to
 * this folder and the pass autodiff. */
#ifndef DL_GRAD_H
#define DL_GRAD_H
#include "ir/builder.h"
#include "ir/walk.h"
#include "passes/pass.h"

/* The gradient of a slice of a value along an axis: elements start to stop - 1. */
typedef struct {
    const char *axis; /* interned */
    int64_t start, stop;
    int given; /* its number among the value's pieces */
    dl_value *v;
} dl_grad_piece;
typedef DL_ARRAY(dl_grad_piece) dl_grad_pieces;

/* The functions below that the rule of a scan applies to its body; they also lead to that rule. */
struct dl_grad;
typedef struct {
    void (*find_active)(const dl_graph *g, bool *active);
    struct dl_grad (*begin)(dl_builder *b, bool *active, bool again, dl_arena *arena,
                            dl_error *err);
    bool (*walk)(struct dl_grad *g, int nodes, const dl_value *until);
} dl_grad_walker;

/* The input of a rule: the forward node, the gradient of its result, and the table of gradients.
 * A rule may give a gradient with more axes than the operand has; dl_grad_give sums over the
 * axes that an implicit broadcast added. */
typedef struct dl_grad {
    dl_builder *b;
    const dl_node *node;
    int at;                 /* its position in the graph */
    dl_value *dy;           /* of the type of node->out[0] */
    const bool *active;     /* by value id: depends on a parameter, so its gradient is wanted */
    dl_value **grads;       /* by value id: sum of the contributions so far, or NULL */
    const dl_uses *uses;    /* of the forward graph, by value id */
    bool again;             /* the gradients are differentiated themselves */
    dl_grad_pieces *pieces; /* by value id: gradients of its slices, not in `grads` yet */
    dl_arena *arena;        /* scratch memory */
    dl_error *err;
    const dl_grad_walker *walker;
} dl_grad;

/* Is the gradient of this operand wanted? Rules ask before they build anything costly. */
bool dl_grad_wanted(const dl_grad *g, int operand);
/* Adds a contribution to an operand's gradient. */
void dl_grad_give(dl_grad *g, int operand, dl_value *contribution);
/* The same for a value that is read through views of the operands; its node is before this node,
 * too. */
void dl_grad_give_to(dl_grad *g, const dl_value *v, dl_value *contribution);

/* Adds dy, the gradient of a slice of the operand that begins at `start`. */
void dl_grad_give_slice(dl_grad *g, int operand, const char *axis, int64_t start);
/* The gradient of v after all of its readers have given theirs, or NULL. */
dl_value *dl_grad_of(dl_grad *g, const dl_value *v);

/* The sum of v over n of its axes. Factors that are constant along all of these axes are
 * multiplied after the sum. */
dl_value *dl_grad_factored_sum(dl_builder *b, dl_value *v, int n, const char *const *over);

/* Marks the values that depend on those that `active`, by value id, has, along a path on which
 * gradients flow. */
void dl_grad_find_active(const dl_graph *g, bool *active);
/* No gradients yet, of the values that the graph has now. */
dl_grad dl_grad_new(dl_builder *b, bool *active, bool again, dl_arena *arena, dl_error *err);
/* Applies the rules of the graph's first `nodes` nodes, from the last one to the one that makes
 * `until` (NULL: all), to the gradients that g has. False: g->err. */
bool dl_grad_walk(dl_grad *g, int nodes, const dl_value *until);

/* A rule gives each wanted operand its contribution, or sets g->err. */
typedef void dl_grad_rule(dl_grad *g);
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr)                    \
    dl_grad_rule dl_grad_##grad;
#include "ir/ops.def"
#undef OP
#endif
