/* The reference interpreter: the meaning of every op, in double precision, by simple and slow
 * loops.
 *
 * Tensors are logical: row-major doubles (a bool is 0 or 1), whatever the layout of the value.
 * Results are not rounded to the value's element type unless `round` is set. Fused nodes run their
 * kernel's program point by point. */
#ifndef DL_INTERP_H
#define DL_INTERP_H
#include "ir/kernel/kernel.h"

typedef struct dl_interp dl_interp;

/* A run of graph g; frees with dl_interp_free. round: after each node, round to the value's element
 * type (f32...). */
dl_interp *dl_interp_new(const dl_graph *g, bool round);
void dl_interp_free(dl_interp *in);
/* Makes later runs free each value after its last reader, so that a large step fits into memory.
 * Only variables and the graph's results keep their data. Nodes that no element of a result
 * depends on do not run. */
void dl_interp_release(dl_interp *in);
/* Data of a variable or value: row-major, dl_type_count elements, owned by the run. Variables start
 * as zeros, tables as their numbers. NULL when there is no memory for it. */
double *dl_interp_data(dl_interp *in, const dl_value *v);
/* Frees the data; the next use finds it in its initial state. */
void dl_interp_drop(dl_interp *in, const dl_value *v);
/* Runs all nodes, then applies the updates. The graph must be valid (validate.h). False: DL_INPUT
 * naming an op that has no meaning yet (class HIGH), DL_RESOURCE without memory. */
bool dl_interp_run(dl_interp *in, dl_error *err);
/* Runs one node, from the data of its operands to the data of its results. */
bool dl_interp_node(dl_interp *in, const dl_node *n, dl_error *err);
/* Receives one element of result k of a node: its value in double precision, and the range in
 * which a float32 computation on the same operands may end. */
typedef void dl_interp_judge(void *user, int k, int64_t element, double at, double low,
                             double high);
typedef struct {
    dl_interp_judge *judge;
    void *user;
    bool chain; /* includes the error of a contraction in a plain float32 loop with similar terms:
                   slow */
} dl_interp_ranges;
/* Runs a fused node. Each element of its results is judged once, in any order; the results get no
 * data. Where a comparison, maximum, floor or sign is a tie within rounding, the range includes
 * the results of both sides. An element that may be anything, NaN included (a division by a number
 * that may be zero), has the range of all numbers. */
bool dl_interp_node_ranges(dl_interp *in, const dl_node *n, const dl_interp_ranges *to,
                           dl_error *err);
/* Perturbs every float that a node computes from now on, by that relative size, up or down at
 * random. Runs with different seeds show the effect of rounding on results (Vignes' stochastic
 * arithmetic). */
void dl_interp_shake(dl_interp *in, double relative, uint64_t seed);

/* From now on `own` may replace each node's result: where it returns true, the result is what it
 * wrote; `data` has the operands, then the results. Code that is tested against the interpreter
 * defines its ops this way (verify/reference.h), and an observer sees each node. */
typedef bool dl_interp_own(void *user, const dl_node *n, double *const *data);
void dl_interp_means(dl_interp *in, dl_interp_own *own, void *user);

/* From now on a run holds only the data of the current node. `source` provides a variable whenever
 * a node reads it. `take` gets each result of the graph when it is computed (a value with several
 * names once; also one without elements). Each value is freed after its last reader. Nodes that no
 * element of a result depends on do not run; updates are not applied. source: `to` has zeros, or a
 * table's numbers. take: dl_type_count elements, valid during the call. */
typedef void dl_interp_source(void *user, const dl_value *v, double *to);
typedef void dl_interp_take(void *user, const dl_value *v, const double *data);
void dl_interp_stream(dl_interp *in, dl_interp_source *source, dl_interp_take *take, void *user);

/* The scalar meaning of an ELEM op, or how a REDUCE op combines a and b (expr of ops.def in
 * double). */
double dl_interp_scalar(dl_op op, double a, double b, double c, double p);
/* v converted to element type d: integers truncate towards zero, a bool is 0 or 1, floats round to
 * nearest even, but only where `round` is set. */
double dl_interp_convert(dl_dtype d, double v, bool round);
#endif
