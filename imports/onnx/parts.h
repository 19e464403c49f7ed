/* The parts of the reader of ONNX files: messages become nodes and values (read.c, data.c,
 * values.c), these get modules (scope.c), patterns become the layers that they are (fuse.c),
 * arithmetic on constants and sizes is done (fold*.c, samples.c), and each other node becomes nodes
 * of PyTorch's ops (ops*.c). */
#ifndef DL_IMPORTS_ONNX_PARTS_H
#define DL_IMPORTS_ONNX_PARTS_H
#include "imports/onnx/onnx.h"
#include "runtime/formats/protobuf.h"

/* The size that stands for the batch while shapes are computed: a prime, so that no other size is a
 * multiple of it by chance. Numbers are computed for another one as well: those that differ depend
 * on the batch. */
enum { DL_OX_BATCH = 7919, DL_OX_OTHER_BATCH = 7927, DL_OX_OLDEST = 13, DL_OX_BUCKETS = 1 << 13 };

typedef struct {
    int rank;
    int64_t size[DL_FOREIGN_RANK];
} dl_ox_shape;

/* A value of the graph: an input, a stored tensor, or a node's result. */
typedef struct dl_ox_value {
    const char *name;
    struct dl_ox_value *next; /* in its bucket */
    dl_foreign_tensor *t; /* shape, type, numbers; NULL: it is not computed yet. id -1: it is not
                           * among the graph's tensors yet */
    bool stored;          /* in the file, as numbers */
    bool buffer, trained; /* by the exporter's signature */
    bool holds;           /* no value: "layer1.0." of a module that has stored tensors */
    const double *known;  /* its numbers, where they follow from constants and sizes */
    const double *other;  /* those for DL_OX_OTHER_BATCH, where they are not the same */
    /* The numbers of the first sample, with 1 in place of the batch's axis, where they need no
     * input; what each further sample has more than the one before, or NULL: nothing. */
    const double *sample, *step;
    struct dl_ox_value *repeated; /* what other ops read instead: those, repeated for the batch */
    int reads;        /* how many operands of nodes it is; an output of the graph is one */
    int by;           /* the node that computes it, or -1 */
    dlr_pb_view info; /* its shape and type as the file states them, or empty */
    struct dl_ox_value *turned; /* the stored matrix of which it is the transpose */
    struct dl_ox_value *weight; /* the weight of a module that it has become, of which module */
    const char *module;
} dl_ox_value;

typedef struct {
    const char *name, *text; /* text: of a string */
    bool has_int;
    int64_t whole;
    double real;
    int n_ints, n_reals;
    const int64_t *ints;
    const double *reals;
    int n_texts;
    const char *const *texts;
    dl_ox_value *tensor;
} dl_ox_attr;

typedef struct {
    const char *op, *name;
    int n_in, n_out, n_attrs;
    dl_ox_value **in, **out; /* NULL: left out */
    const dl_ox_attr *attrs;
    int depth;
    const dl_foreign_module *stack;
    const char *function; /* of the user, and a line in it; or NULL */
    int line;
    bool scoped; /* the file says which modules it is in */
    bool gone;   /* a pattern has taken it */
} dl_ox_node;

/* A recurrent layer that is made, to which the next node may add one (layers.c). */
typedef struct dl_ox_layer dl_ox_layer;

typedef struct {
    const char *path;
    int fd;
    int64_t bytes;
} dl_ox_external;

struct dl_onnx_file {
    dl_arena *arena;
    const char *path, *sizes;
    dl_error *err;
    dl_foreign_graph graph;
    dl_ox_value *bucket[DL_OX_BUCKETS];
    DL_ARRAY(dl_ox_node) nodes;
    DL_ARRAY(dl_ox_value *) inputs;
    DL_ARRAY(dl_ox_value *) outputs;
    DL_ARRAY(dl_ox_external) externals;
    DL_ARRAY(dl_ox_layer *) layers;
    int64_t opset;                 /* of the ops that have no domain */
    int64_t baked;                 /* the batch's size in the file; 0: it is open there */
    bool has_signature;            /* the file tells parameters from buffers */
    const char *place;             /* "node 'conv1' (Conv)" */
    DL_ARRAY(dl_foreign_arg) args; /* of the node that is being made */
};
typedef dl_onnx_file dl_ox;

/* A node that is being translated. */
typedef struct {
    dl_ox *r;
    const dl_ox_node *n;
    const char *detail; /* of its row in ops.def */
    const char *label;  /* of parameters whose own names are no layer's; NULL: none has been made */
} dl_ox_op;

/* A rule makes a node's results. False: it does not know this form of the op, or r->err is set. */
typedef bool dl_ox_rule(dl_ox_op *o);

/* ---- values.c ---- */

/* Fails: "FILE.onnx: PLACE: text". */
bool dl_ox_bad(const dl_ox *r, const char *format, ...) DL_PRINTF(2, 3);
const char *dl_ox_text(const dl_ox *r, dlr_pb_view v);
/* The value of that name, new if there is none. */
dl_ox_value *dl_ox_find(dl_ox *r, const char *name);
const dl_ox_attr *dl_ox_attribute(const dl_ox_node *n, const char *name);
int64_t dl_ox_int(const dl_ox_node *n, const char *name, int64_t standard);
/* The shortest decimal that is this number of 32 bits: 1e-05, not 9.999999747378752e-06. */
double dl_ox_shortest(float v);
double dl_ox_real(const dl_ox_node *n, const char *name, double standard);
const char *dl_ox_word(const dl_ox_node *n, const char *name, const char *standard);

/* ---- read.c ---- */

bool dl_ox_read(dl_ox *r, dlr_pb_view model);

/* ---- data.c ---- */

bool dl_ox_set_type(dl_foreign_tensor *t, uint64_t type);
/* A shape that no file may exceed. */
bool dl_ox_check_shape(const dl_ox *r, const dl_foreign_tensor *t);
/* Shape and type as a ValueInfoProto states them. t->open[d]: the file leaves the size open, under
 * name[d] or none. False: it states no shape (then without an error), or a wrong one. */
bool dl_ox_read_info(dl_ox *r, dlr_pb_view info, dl_foreign_tensor *t,
                     const char *name[DL_FOREIGN_RANK]);
/* Reads a TensorProto into v, whose name it is not. */
bool dl_ox_read_tensor(dl_ox *r, dlr_pb_view tensor, dl_ox_value *v);
/* Stores numbers of the reader's as v. */
void dl_ox_hold(dl_ox *r, dl_ox_value *v, const dl_ox_shape *s, dl_foreign_class class,
                dlr_st_dtype dtype, double *numbers);
/* The numbers of a value that is no parameter; NULL: they are not known, or too many. */
const double *dl_ox_known(dl_ox *r, dl_ox_value *v);
/* A single one. */
bool dl_ox_number(dl_ox *r, dl_ox_value *v, double *number);
/* The same of an operand that no model trains, whatever its name: bounds, scales, values of zeros
 * and ones. */
const double *dl_ox_setting(dl_ox *r, dl_ox_value *v);
bool dl_ox_set_number(dl_ox *r, dl_ox_value *v, double *number);
/* The stored floats [C] or [C, 1, 1] that v is, or is an Unsqueeze of; NULL: it is none. */
dl_ox_value *dl_ox_vector(const dl_ox *r, dl_ox_value *v);
bool dl_ox_read_external(void *context, const dl_foreign_data *data, void *to, dl_error *err);

/* ---- scope.c ---- */

/* The modules of a node, by the metadata of PyTorch's exporter or the node's name. */
void dl_ox_read_scope(dl_ox *r, dl_ox_node *n, dlr_pb_view message);
/* The modules of nodes of which the file does not say them. */
void dl_ox_fill_scopes(dl_ox *r);
/* The names of parameters and buffers that the exporter lists. */
void dl_ox_read_signature(dl_ox *r, const char *text);
/* Notes the modules that a stored tensor's name stands in. */
void dl_ox_note_modules(dl_ox *r, const char *name);
/* Whether it is a name that a person has given, such as "layer1.0.conv1.weight". */
bool dl_ox_is_name(const dl_ox *r, const dl_ox_value *v);
bool dl_ox_is_parameter(const dl_ox *r, const dl_ox_value *v);

/* ---- rows.c: rearranged weights ---- */

/* A row of a stored tensor: `width` numbers. */
typedef struct {
    dl_ox_value *of;
    int64_t at;
} dl_ox_row;
/* The rows of `width` numbers of a value that consists of stored tensors, cut, joined and reshaped.
 * NULL: it does not. */
const dl_ox_row *dl_ox_rows(dl_ox *r, dl_ox_value *v, int64_t width);
/* The parameter of shape s, [rows] or [rows, width], that rows are in their order, or NULL. */
dl_ox_value *dl_ox_whole_tensor(const dl_ox *r, const dl_ox_row *rows, const dl_ox_shape *s);
/* The numbers of n rows. False: r->err is set. */
bool dl_ox_copy_rows(dl_ox *r, const dl_ox_row *rows, int64_t n, int64_t width, float *to);

/* ---- fuse.c, fold.c ---- */

void dl_ox_fuse(dl_ox *r);
/* Computes the results of a node whose operands are known. False: it is none of those. */
bool dl_ox_fold(dl_ox *r, const dl_ox_node *n);

/* ---- samples.c: numbers that each sample has ---- */

/* Notes the numbers of a translated node's result, where it has the batch's axis and they follow
 * from constants, sizes and counts of samples. */
void dl_ox_note_sample(dl_ox_op *o);
/* The axis of size DL_OX_BATCH; -1: there is none, or several, or one with more than the batch. */
int dl_ox_batch_axis(const dl_ox_value *v);
/* Whether v, along its first axis, holds the numbers 0, 1, ... in their order. */
bool dl_ox_counts_all(const dl_ox_value *v);

/* ---- make.c: nodes of PyTorch's ops ---- */

void dl_ox_arg_tensor(dl_ox_op *o, const char *name, dl_ox_value *v);
void dl_ox_arg_tensors(dl_ox_op *o, const char *name, int n, dl_ox_value *const *v);
/* A tensor, or the number that it is. */
void dl_ox_arg_operand(dl_ox_op *o, const char *name, dl_ox_value *v);
void dl_ox_arg_int(dl_ox_op *o, const char *name, int64_t v);
void dl_ox_arg_ints(dl_ox_op *o, const char *name, int n, const int64_t *v);
void dl_ox_arg_real(dl_ox_op *o, const char *name, double v);
void dl_ox_arg_text(dl_ox_op *o, const char *name, const char *v);
/* Ends a node with the arguments since the last one. Its only result is `to`, a new value if that
 * is NULL; NULL with an error. Class and element type are those of `like`. */
dl_ox_value *dl_ox_make(dl_ox_op *o, const char *op, dl_ox_value *to, const dl_ox_shape *s,
                        const dl_ox_value *like);
dl_ox_value *dl_ox_make_as(dl_ox_op *o, const char *op, dl_ox_value *to, const dl_ox_shape *s,
                           dl_foreign_class class, dlr_st_dtype dtype);
/* The same with a result for each of the node's outputs; s: a shape each. */
bool dl_ox_make_all(dl_ox_op *o, const char *op, const dl_ox_shape *s, const dl_ox_value *like);
/* The same with n results, each a new value or to[i]. */
bool dl_ox_make_several(dl_ox_op *o, const char *op, int n, dl_ox_value **to, const dl_ox_shape *s,
                        const dl_ox_value *like);
/* A parameter of that name, which no other tensor has, and of numbers of the reader's. */
dl_ox_value *dl_ox_parameter(dl_ox *r, const char *path, const dl_ox_shape *s,
                             const float *numbers);
/* A name for tensors of the node's module, "rnn": no tensor is called "rnn.ROLE". */
const char *dl_ox_fresh_label(const dl_ox_op *o, const char *role);
/* The first output is v itself. */
bool dl_ox_alias(dl_ox_op *o, dl_ox_value *v);
/* A stored tensor as a weight of the node's module: "weight", "bias", "running_mean". view: its
 * shape and strides, of its own size; NULL: as it is stored. */
dl_ox_value *dl_ox_weight(dl_ox_op *o, dl_ox_value *v, const char *role, const dl_ox_shape *s,
                          const int64_t *stride);
/* For reports: a node with the op's own name, and results as the file states them. */
bool dl_ox_make_lacking(dl_ox_op *o);

/* ---- shapes.c ---- */

dl_ox_shape dl_ox_shape_of(const dl_ox_value *v);
bool dl_ox_broadcast(const dl_ox_shape *a, const dl_ox_shape *b, dl_ox_shape *to);
int64_t dl_ox_count(const dl_ox_shape *s);
/* Operand i, or NULL. */
dl_ox_value *dl_ox_in(const dl_ox_op *o, int i);
/* Whole numbers that must be known: an operand (from i), or an attribute of that name; -1: absent;
 * -2: not known. */
int dl_ox_ints(dl_ox_op *o, int i, const char *name, int most, int64_t *to);
/* dimension from the end, or as given; -1: out of range */
int dl_ox_dim(int64_t d, int rank);
/* The nearest whole number of 64 bits towards zero; 0 of no number. */
int64_t dl_ox_whole(double x);
/* The result's shape of Squeeze, Unsqueeze and Gather. False: its axes are not known or out of
 * range, maybe with an error. */
bool dl_ox_squeezed(dl_ox_op *o, const dl_ox_shape *from, dl_ox_shape *to);
bool dl_ox_unsqueezed(dl_ox_op *o, const dl_ox_shape *from, dl_ox_shape *to);
bool dl_ox_gathered(const dl_ox_shape *from, int axis, const dl_ox_shape *index, dl_ox_shape *to);

/* ---- ops.c ---- */

bool dl_ox_translate(dl_ox *r, const dl_ox_node *n);

#define OP(op, function, detail) extern dl_ox_rule dl_ox_##function;
#include "imports/onnx/ops.def"
#endif
