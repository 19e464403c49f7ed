/* Lowering rules: one function for each name in the `lower` column of ops.def. Private to the pass
 * lower. */
#ifndef DL_LOWER_H
#define DL_LOWER_H
#include "ir/builder.h"

/* The pass at work. */
typedef struct {
    dl_builder b;          /* what rules get */
    dl_value *seed, *step; /* what random numbers are drawn by; NULL until one is */
    bool ranks;            /* several share the samples, */
    dl_value *rank;        /* and which part of them is here; NULL until one is drawn by it */
    int64_t batch_ranks;   /* whose samples a statistic of the batch is made of (dl_parallel); at
                              least 1 */
    int64_t next;          /* number of the next op that draws */
    dl_error *err;
} dl_lowering;
/* Of the builder that a rule gets. */
static inline dl_lowering *dl_lowering_of(dl_builder *b) { return (dl_lowering *)b; }
/* Begins to draw for one more op, in place of node n: its number in *number; in[] is what it draws
 * by, seed and step, and the part where ranks have each their samples of n's operands. How many
 * those are; 0: the pass' error is set. lower_random.c */
int dl_lower_draw(dl_builder *b, const dl_node *n, int64_t *number, dl_value *in[3]);

/* Builds what the composite node means out of other ops, in front of it; returns the value that
 * stands for its result; the pass brings its axes into the order that the node promised. */
typedef dl_value *dl_lower_rule(dl_builder *b, const dl_node *n);
#define OP(id, text, arity, class, infer, grad, lower, amp, attrs, expr)                           \
    dl_lower_rule dl_lower_##lower;
#include "ir/ops.def"
#undef OP
#endif
