/* The axis of a batch's samples in the values that are computed from them, and whether a graph
 * treats samples one by one. */
#ifndef DL_SAMPLES_H
#define DL_SAMPLES_H
#include "ir/graph.h"

/* The axis of the samples, possibly joined with other axes. */
typedef struct {
    const char *axis;     /* interned; NULL: no axis */
    int64_t inner, outer; /* the number of points of the axes joined to it, within the samples and
                             around them */
} dl_samples;

/* An axis of samples alone. */
static inline dl_samples dl_samples_along(const char *axis) {
    return (dl_samples){.axis = axis, .inner = 1, .outer = 1};
}
/* The axis of operand k's samples, which are along `from` there, in n's first result; no axis:
 * there is none. */
dl_samples dl_samples_follow(const dl_node *n, int k, dl_samples from);
/* Does n sum over operand k's samples, which are along `axis` (NULL: it has none)? Contractions of
 * two operands that both have the axis do so, too, and segments of samples that are added up. */
bool dl_sums_samples(const dl_node *n, int k, const char *axis);

/* Where a graph's samples are, value by value, and what its nodes do to them. */
typedef struct {
    dl_arena *arena;
    const char *axis;        /* "N" */
    int64_t batch;           /* samples */
    DL_ARRAY(dl_samples) of; /* by value id */
    bool sums;               /* a node sums over samples */
    bool chooses; /* one takes the largest or smallest of them, which a copy of a sample changes not
                   */
    bool relates; /* one relates them otherwise: a softmax over them, a table of all pairs */
    bool numbers; /* one depends on a sample's place in the batch, or on the batch's size */
} dl_sample_flow;

/* Begins with the inputs and targets that have an axis N, which must have one size. False: none
 * has. */
bool dl_sample_flow_begin(dl_sample_flow *f, dl_arena *arena, const dl_graph *g);
dl_samples *dl_sample_flow_of(dl_sample_flow *f, const dl_value *v);
/* Follows the samples through a node whose operands have been followed. */
void dl_sample_flow_add(dl_sample_flow *f, const dl_node *n);
/* Whether a graph, lowered, computes each result's sample i from sample i of its inputs alone, and
 * alike for every i: the results of a batch are then those of its samples one by one. */
bool dl_samples_are_apart(const dl_graph *g);
/* The first node by which a loss or a metric of a graph, lowered, relates samples to each other
 * otherwise than by sums over them; NULL: none does. */
const dl_node *dl_samples_related_by(const dl_graph *g);

/* A constant that depends on the batch's size, as a model's text says N: sum(l) / (N*T - 1). In a
 * batch that is 1 + more times as large it is base + step more, or the reciprocal of that. */
typedef struct {
    double base, step;
    bool inverse;
} dl_batch_constant;
/* The constant of a node `const`; one that grows with the batch is assumed to be linear in its
 * size, of one that falls the reciprocal is. False: it does not depend on it. */
bool dl_batch_constant_of(const dl_node *n, dl_batch_constant *c);

/* The number of batches of a step that has several (pass accumulate), a hyperparameter in f64. */
dl_value *dl_step_batches(dl_graph *g, dl_loc loc);
#endif
