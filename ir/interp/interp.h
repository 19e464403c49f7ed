/* The reference interpreter: the meaning of every op, in double precision and plain loops. Slow and
 * obvious.
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
/* Lets later runs free each value after its last reader, so that a large step fits into memory;
 * only variables and values that are results of the graph keep their data, and nodes that no
 * element of a result is made of do not run. */
void dl_interp_release(dl_interp *in);
/* Data of a variable or value: row-major, dl_type_count elements, owned by the run. Variables start
 * as zeros, tables as their numbers. NULL when there is no memory for it. */
double *dl_interp_data(dl_interp *in, const dl_value *v);
/* Frees them; asked for again they are as at the start. */
void dl_interp_drop(dl_interp *in, const dl_value *v);
/* Runs all nodes, then applies the updates. The graph must be valid (validate.h). False: DL_INPUT
 * naming an op that has no meaning yet (class HIGH), DL_RESOURCE without memory. */
bool dl_interp_run(dl_interp *in, dl_error *err);
/* One node alone, from the data of its operands to the data of its results. */
bool dl_interp_node(dl_interp *in, const dl_node *n, dl_error *err);
/* Judges one element of result k of a node: its value, and between which two numbers a float32
 * computation on the same operands may leave it. */
typedef void dl_interp_judge(void *user, int k, int64_t element, double at, double low,
                             double high);
typedef struct {
    dl_interp_judge *judge;
    void *user;
    bool chain; /* count in what a contraction in a plain float32 loop loses where its terms are
                   alike: slow */
} dl_interp_ranges;
/* A fused node, each element of whose results is judged once, in any order; the results get no
 * data. Where a comparison, maximum, floor or sign is a tie within rounding, both sides' results
 * are in the range. An element that may be anything, NaN included (a division by what may be zero),
 * has the range of all numbers. */
bool dl_interp_node_ranges(dl_interp *in, const dl_node *n, const dl_interp_ranges *to,
                           dl_error *err);
/* From now on every float that a node makes is moved by that part of its size, up or down by
 * chance: runs that differ in `seed` show what rounding means for the results (Vignes' stochastic
 * arithmetic). */
void dl_interp_shake(dl_interp *in, double relative, uint64_t seed);

/* From now on each node's result is what `own` makes of its operands' data, where it returns true;
 * data are the operands', then the results'. What is checked against the interpreter has a meaning
 * of its own so (verify/reference.h), and what looks at a run sees each node. */
typedef bool dl_interp_own(void *user, const dl_node *n, double *const *data);
void dl_interp_means(dl_interp *in, dl_interp_own *own, void *user);

/* From now on a run holds no more than a node needs: variables come from `source` whenever a node
 * reads them and go after it; `take` sees each result of the graph (a value that several name,
 * once) when it is made, also one of no elements, and each value is freed after its last reader.
 * Nodes that no element of a result is made of do not run; updates are not applied. source: `to`
 * holds zeros, or a table's numbers. take: dl_type_count elements, for the time of the call. */
typedef void dl_interp_source(void *user, const dl_value *v, double *to);
typedef void dl_interp_take(void *user, const dl_value *v, const double *data);
void dl_interp_stream(dl_interp *in, dl_interp_source *source, dl_interp_take *take, void *user);

/* The scalar meaning of an ELEM op, or how a REDUCE op combines a and b (expr of ops.def in
 * double). */
double dl_interp_scalar(dl_op op, double a, double b, double c, double p);
/* v as an element of type d: integers cut towards zero, a bool 0 or 1; floats rounded to nearest
 * even, only where `round` is set. */
double dl_interp_convert(dl_dtype d, double v, bool round);
#endif
