/* An ONNX model under construction: nodes, initializers, descriptions of values.
 *
 * Emitters (ops.h) add nodes in topological order; dl_onnx_save (save.h) writes the file. Names
 * of generated values have a slash ("conv/12"), which no name of a user's model has. */
#ifndef DL_ONNX_MODEL_H
#define DL_ONNX_MODEL_H
#include "exports/onnx/proto.h"
#include "ir/graph.h"
#include "runtime/formats/stored.h"

/* A tensor of ONNX. An axis of size `type.axis[i].size` has `per[i]` elements for each sample, so
 * that its size follows the batch; 0: its size is fixed. */
typedef struct {
    const char *name; /* NULL: none */
    dl_type type;
    int64_t per[DL_MAX_RANK];
} dl_onnx_value;

/* A constant of the model. Its elements are in memory, or in the file of weights. */
typedef struct {
    const char *name;
    dl_type type;
    const void *data; /* row-major; NULL: those of `stored` */
    const dlr_st_tensor *stored;
} dl_onnx_tensor;

typedef struct dl_onnx_sizes dl_onnx_sizes; /* batch.h */

typedef struct dl_onnx dl_onnx;
struct dl_onnx {
    dl_arena *arena;
    /* Emits a node (dl_onnx_emit of ops.h): for emitters of nodes that have a graph of their own */
    bool (*emit)(dl_onnx *o, const dl_node *n);
    dl_buf nodes, infos, inputs, outputs; /* fields of a GraphProto */
    DL_ARRAY(dl_onnx_tensor) tensors;
    int n_names;
    const dl_node *node;        /* what new nodes are made for; NULL: inputs and outputs */
    const dl_onnx_sizes *sizes; /* of the graph whose nodes are emitted */
    dl_onnx_value *values;      /* by value id of this graph */
    dl_onnx_value sampled;      /* an input with the batch axis; no name: there is none */
    const char *batch;          /* the value that holds N, i64[1]; NULL: not yet */
    const dl_node *not_batch;   /* a node that can be said for one batch alone */
    dl_error *err;
};

/* A name that no other value has: "conv/12". */
const char *dl_onnx_fresh(dl_onnx *o, const char *of);
/* Adds a node of one result, and returns the result's name. `attributes` may be NULL; freed. */
const char *dl_onnx_add(dl_onnx *o, const char *op, int nin, const char *const *in,
                        dl_buf *attributes);
/* The same with several results, whose names are set. An operand named "" is left out. */
void dl_onnx_add_all(dl_onnx *o, const char *op, int nin, const char *const *in, dl_buf *attributes,
                     int nout, const char **out);
/* The same for one, two and three operands. */
const char *dl_onnx_add1(dl_onnx *o, const char *op, const char *a);
const char *dl_onnx_add2(dl_onnx *o, const char *op, const char *a, const char *b);
const char *dl_onnx_add3(dl_onnx *o, const char *op, const char *a, const char *b, const char *c);

/* Constants: integers i64[n], a number of a type, and a tensor whose elements (row-major) stay
 * valid. */
const char *dl_onnx_ints(dl_onnx *o, int n, const int64_t *values);
const char *dl_onnx_int(dl_onnx *o, int64_t value); /* i64[1] */
const char *dl_onnx_scalar(dl_onnx *o, dl_dtype dtype, double value);
const char *dl_onnx_constant(dl_onnx *o, dl_type type, const void *data);
/* The same from doubles, which are converted and copied. */
const char *dl_onnx_doubles(dl_onnx *o, dl_type type, const double *numbers);

/* The value with another name. */
dl_onnx_value dl_onnx_named(dl_onnx_value v, const char *name);
/* The value cast to an element type; itself where it is of that type. */
dl_onnx_value dl_onnx_cast(dl_onnx *o, dl_onnx_value v, dl_dtype to);
/* Where of two values of an element type. ONNX Runtime's CPU provider has none for bf16, whose
 * numbers go through f32, exactly. */
const char *dl_onnx_where(dl_onnx *o, const char *mask, const char *yes, const char *no,
                          dl_dtype of);
/* The value that holds N, i64[1], or a multiple of it. `sampled` must have a name. */
const char *dl_onnx_batch(dl_onnx *o);
const char *dl_onnx_batches(dl_onnx *o, int64_t per);

/* The value of the node's i-th operand; the description of its result, without a name. */
dl_onnx_value dl_onnx_in(const dl_onnx *o, const dl_node *n, int i);
dl_onnx_value dl_onnx_out(const dl_onnx *o, const dl_node *n);
/* The result is the value of that name, a new one. Returns true. */
bool dl_onnx_set(dl_onnx *o, const dl_node *n, const char *name);

/* Describes a value, in the graph's inputs, outputs or infos. */
void dl_onnx_describe(dl_buf *list, int field, const dl_onnx_value *v);
/* The current node cannot be said for every batch. Returns false. */
bool dl_onnx_needs_batch(dl_onnx *o);
#endif
