/* Lowering rules: one function for each name in the `lower` column of ops.def. Private to the pass
 * lower. */
#ifndef DL_LOWER_H
#define DL_LOWER_H
#include "ir/builder.h"

/* The state of the pass. */
typedef struct {
    dl_builder b; /* the argument of rules */
    /* what random numbers are drawn by: the seed, and a step or a batch of an evaluation; NULL
     * until an op needs them */
    dl_value *seed, *step, *batch;
    bool ranks;     /* several ranks share the samples; */
    dl_value *rank; /* the index of this rank's part of them; NULL until a random op needs it */
    int64_t batch_ranks; /* the number of ranks whose samples form a batch statistic (dl_parallel);
                            at least 1 */
    int64_t next;        /* the number of the next random op */
    bool (*keeps)(const dl_node *n); /* dl_pass_ctx */
    dl_arena *arena;                 /* scratch memory */
    const bool *twice; /* by value id: may be differentiated twice (dl_lower_find_twice); or NULL */
    dl_error *err;
} dl_lowering;
/* The pass' state, from the builder that a rule gets. */
static inline dl_lowering *dl_lowering_of(dl_builder *b) { return (dl_lowering *)b; }
/* lower_grad.c: the values between both operands of an op `grad`, by value id. Their composites
 * are lowered to ops whose gradients have gradients. NULL: the graph has no such op. */
const bool *dl_lower_find_twice(const dl_graph *g, dl_arena *arena);
static inline bool dl_lower_twice(dl_builder *b, const dl_node *n) {
    const bool *twice = dl_lowering_of(b)->twice;
    return twice && twice[n->out[0].id];
}
/* lower_random.c: prepares a random op in place of node n. *number: the op's number; in[]: its
 * operands, seed and step (or batch), and the rank's part where ranks have different samples of n's
 * operands. Returns how many operands there are; 0: the pass' error is set. */
int dl_lower_draw(dl_builder *b, const dl_node *n, int64_t *number, dl_value *in[3]);

/* Builds the replacement of the composite node n, before it; returns the value that replaces its
 * result. The pass permutes the value's axes into the order of the result. */
typedef dl_value *dl_lower_rule(dl_builder *b, const dl_node *n);
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr)                    \
    dl_lower_rule dl_lower_##lower;
#include "ir/ops.def"
#undef OP
#endif
