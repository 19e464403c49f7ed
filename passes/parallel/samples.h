/* The axis of a batch's samples in the values that are computed from them. */
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

/* A constant that depends on the batch's size, as a model's text says N: sum(l) / (N*T - 1). In a
 * batch that is 1 + more times as large it is base + step more, or the reciprocal of that. */
typedef struct {
    double base, step;
    bool inverse;
} dl_batch_constant;
/* The constant of a node `const`; one that grows with the batch is assumed to be linear in its
 * size, of one that falls the reciprocal is. False: it does not depend on it. */
bool dl_batch_constant_of(const dl_node *n, dl_batch_constant *c);
#endif
