/* The writer's parts: a foreign graph becomes bodies of statements, and these become text.
 *
 * A body is what a module or the model holds. A statement is an expression of the language in
 * pieces: text, operands (other statements of the body), numbers and labels stay apart, so that
 * equal blocks are found by comparing pieces, and what differs becomes an argument. */
#ifndef DL_IMPORTS_DL_PARTS_H
#define DL_IMPORTS_DL_PARTS_H
#include "imports/dl/write.h"

/* How tightly an expression binds, as in the grammar. */
typedef enum { P_PIPE, P_COMPARE, P_SUM, P_PRODUCT, P_UNARY, P_POWER, P_POSTFIX } dl_in_prec;

typedef struct dl_in_body dl_in_body;

typedef enum { PIECE_TEXT, PIECE_REF, PIECE_NUM, PIECE_LABEL, PIECE_CALL, PIECE_ARG } dl_in_kind;
typedef struct {
    dl_in_kind kind;
    const char *text; /* of TEXT, NUM and ARG; the path of a LABEL */
    const char *hint; /* of a NUM: how an argument of it is called */
    /* of a NUM that is an optional argument: ", stride=", and the number that it has by default */
    const char *before, *standard;
    int ref;          /* of a REF: the statement */
    dl_in_prec prec;  /* of a REF: what may stand there without parentheses */
    dl_in_body *call; /* of a CALL */
} dl_in_piece;

typedef enum {
    STMT_PLAIN,    /* an expression */
    STMT_FUNCTION, /* f(x, ...) or x |> f(...): the first piece is x, the others ", ..." */
    STMT_LAYER,    /* x |> f(...) @label */
    STMT_INPUT,    /* of a module, or of the model */
    STMT_PARAM,    /* a parameter, a buffer, or a number of the archive as text */
    STMT_BOUND,    /* a layer or a module that is applied in several places: f(...) @label */
    STMT_LOOP,     /* for: its body is `loop` */
    STMT_CARRIED   /* what the loop has carried to its end */
} dl_in_style;

typedef DL_ARRAY(dl_in_piece) dl_in_pieces;
typedef struct {
    dl_in_style style;
    dl_in_prec prec;
    dl_in_pieces pieces;
    const char *name;     /* in the text; of inputs and parameters from the beginning */
    const char *wish;     /* a name for it, or NULL */
    const char *function; /* of a FUNCTION */
    /* of a PARAM: "param" or "buffer", NULL for a number; its element type; where it has a label:
     * the path in the archive. Its sizes and names of axes, "1" for none; of a module's INPUT: the
     * names */
    const char *keyword, *type, *label;
    int rank;
    int64_t size[DL_FOREIGN_RANK];
    const char *axis[DL_FOREIGN_RANK];
    int64_t batch[DL_FOREIGN_RANK]; /* of a module's INPUT: its size in batches, where it holds the
                                       batch */
    const char *start;              /* "= 0" or "~ normal(0, 0.02)" */
    struct dl_in_loop *loop;
    int carried; /* of a CARRIED: which */
    /* for the printer: in how many places it is read; the statement whose line it is part of; the
     * last line that reads it */
    int uses, line, last;
} dl_in_stmt;

/* for i in range(first, first + count): statements of one pass; `carried` run from pass to pass. */
typedef struct dl_in_loop {
    dl_in_body *body;
    int64_t first, count;
    struct {
        int before, inside; /* the value in front of the loop; the body's statement of the next */
    } carried[4];
    int n_carried; /* the body's INPUT statements come first, one each */
} dl_in_loop;

/* An axis of a tensor in the text: its name, and the factors of its size. */
typedef struct {
    const char *name; /* "1": it has none; NULL: a parameter's, not yet chosen */
    int n, atom[DL_FOREIGN_RANK];
} dl_in_axis;

/* A tensor of the graph, in terms of one in the text: the statement's axes are factored into
 * atoms, and each dimension of the graph's tensor is a product of atoms, of none where its size is
 * 1. So transposes, splits and merges of axes cost no text until an op needs them. */
typedef struct {
    int stmt;
    int n; /* axes of the statement */
    dl_in_axis axis[DL_FOREIGN_RANK];
    int rank;
    struct {
        int n, atom[DL_FOREIGN_RANK];
    } dim[DL_FOREIGN_RANK];
    dl_foreign_class class;
    bool pair;    /* complex: the last dimension is the axis Z of its two parts */
    int param;    /* the statement that declares it, or -1 */
    bool is_view; /* of another tensor of the graph: it is not written into */
    /* Random numbers, one a sample: UNIFORM is in 0 to 1, plus `keep`; DRAWN is 1 with probability
     * `keep`, else 0; SCALED is that by keep. A product with SCALED is drop_path. */
    enum { NOT_RANDOM, EMPTY, UNIFORM, DRAWN, SCALED } random;
    double keep;
} dl_in_value;

typedef DL_ARRAY(const dl_foreign_tensor *) dl_in_tensors;

/* Nodes [from, to) are a call of the module at `depth` of their stacks. The values that they read
 * from outside, and compute for outside. */
typedef struct {
    int from, to, depth;
    dl_in_tensors in, out;
} dl_in_call;

/* The first call of a module, and its body. */
typedef struct {
    dl_in_call call;
    dl_in_body *of;
} dl_in_called;

struct dl_in_body {
    const char *class, *path; /* "Block", "blocks.0" */
    int depth;                /* of calls inside */
    DL_ARRAY(dl_in_stmt) stmts;
    DL_ARRAY(dl_in_called) called; /* modules of several calls */
    dl_in_value **of;              /* the value of each tensor of the graph, by its id */
    DL_ARRAY(int) inputs;
    DL_ARRAY(int) returns;
    dl_in_body *same; /* the first of its equal ones; itself, if it is that */
    bool gone;        /* its call is: nothing reads the result */
    const char *name; /* of the module in the text */
    DL_ARRAY(dl_in_piece)
    args; /* of an instance: the numbers that differ; of `same`: their names */
};

typedef struct {
    dl_arena *arena;
    const dl_foreign_graph *graph;
    const dl_import_options *options;
    dl_import_report *report;
    dl_error *err;
    DL_ARRAY(int64_t) atoms; /* their sizes; atom 0 is the batch */
    DL_ARRAY(dl_in_body *) bodies;
    int *reads; /* of each tensor: in how many nodes it is read */
    int *first_use,
        *last_use;   /* of each tensor: nodes that read it; the number of nodes: an output */
    int *defined_by; /* of each tensor: its node, or -1 */
    int *view_of;    /* of each tensor: the one that it is a view of, or -1 */
    bool *written;   /* of each tensor: an op has changed it in place */
    bool *sampled;   /* of each tensor: it comes from the user's inputs, or from random numbers */
    bool *kept;      /* tensors that the model has by their names: they go into the weights file */
} dl_writer;

/* The surroundings of a rule. */
typedef struct {
    dl_writer *w;
    dl_in_body *b;
    const dl_foreign_node *n;
    int index;          /* of the node */
    const char *detail; /* of the rule's row */
} dl_in_ctx;

/* A rule writes a node. False: it does not know this form of the op. */
typedef bool dl_in_rule(dl_in_ctx *c);

/* ---- build.c: statements ---- */

/* Adds a statement; returns its number. The format's codes: %v a value as an argument, %p a value
 * and what it may be there (dl_in_prec), %i a hint and an int64_t, %r a hint and a double, %s text,
 * %l the path of a label. */
int dl_say(dl_in_ctx *c, dl_in_style style, dl_in_prec prec, const char *format, ...);
/* function(v...), or v |> function(...): `format` begins with a comma, or is empty. */
int dl_call_function(dl_in_ctx *c, const char *function, const dl_in_value *v, const char *format,
                     ...);
/* Pieces in addition, to the last statement. */
void dl_say_more(dl_in_ctx *c, const char *format, ...);
/* An optional argument: left out where it has its default, which equal blocks may not all do. */
void dl_say_option(dl_in_ctx *c, const char *name, const char *value, const char *standard);
/* A list of window sizes: one number where all are equal. */
void dl_say_window(dl_in_ctx *c, const char *hint, const char *before, int n, const int64_t *v);
const char *dl_in_number(dl_writer *w, double v);
/* The same as a floating-point number: 1.0 for 1. */
const char *dl_in_real(dl_writer *w, double v);
const char *dl_in_whole(dl_writer *w, int64_t v);

/* ---- values.c ---- */

int64_t dl_atoms_size(const dl_writer *w, int n, const int *atom);
int64_t dl_axis_size_of(const dl_writer *w, const dl_in_axis *a);
int64_t dl_dim_size(const dl_writer *w, const dl_in_value *v, int d);
/* Whether the batch is among these factors of a size. */
bool dl_has_batch(int n, const int *atom);
/* Whether a dimension is an axis of size 1 that is not the batch. */
bool dl_is_one(const dl_writer *w, const dl_in_value *v, int d);
int dl_new_atom(dl_writer *w, int64_t size);
dl_in_value *dl_new_value(dl_in_ctx *c, int stmt, const dl_foreign_tensor *t);
/* The result of an op that keeps the axes of an ordered v, with the shape of t. */
dl_in_value *dl_like(dl_in_ctx *c, int stmt, const dl_in_value *v, const dl_foreign_tensor *t);
/* A copy, for a result that is a view of another value. */
dl_in_value *dl_copy_value(dl_in_ctx *c, const dl_in_value *v);
/* The value of an operand; NULL: the argument is absent. */
dl_in_value *dl_operand(dl_in_ctx *c, const char *name);
dl_in_value *dl_value_of(dl_in_ctx *c, const dl_foreign_tensor *t);
/* The first argument's, whatever its name; NULL: it is no tensor. */
dl_in_value *dl_self(dl_in_ctx *c);
void dl_set(dl_in_ctx *c, int result, dl_in_value *v);
/* The index of the axis that dimension d is, or -1. */
int dl_axis_of(const dl_in_value *v, int d);
/* The name of that axis, chosen now if it is a parameter's. */
const char *dl_axis_name(dl_in_ctx *c, dl_in_value *v, int d);
/* The axis of a complex number's real and imaginary part, and whether dimension d of t is that. */
extern const char dl_parts_axis[];
bool dl_is_parts(const dl_foreign_tensor *t, int d);
/* Dimension from the end, or as given: -1 .. rank - 1. The parts of complex numbers do not count.
 */
int dl_dim(const dl_in_value *v, int64_t d);
/* A name for an axis that v does not have. d: its position among `rank`. */
const char *dl_fresh_name(const dl_in_value *v, int d, int rank);
/* Makes every dimension an axis of its own, or none where its size is 1. The order may differ. */
void dl_whole(dl_in_ctx *c, dl_in_value *v);
/* The same in the graph's order. ones: dimensions of size 1 are axes, too. */
void dl_ordered(dl_in_ctx *c, dl_in_value *v, bool ones);
/* The names that a parameter has got by another copy of the value. */
void dl_take_names(dl_in_ctx *c, dl_in_value *v);
/* Gives all axes names. */
void dl_name_all(dl_in_ctx *c, dl_in_value *v);
/* Renames axes: name[i] of axis i. */
void dl_rename(dl_in_ctx *c, dl_in_value *v, const char *const *name);
/* Splits and merges dimensions to these sizes. */
void dl_reshape(dl_in_ctx *c, dl_in_value *v, int rank, const int64_t *shape);
/* Brings the value into the form [first..., (rest)] and so on: groups of dimensions as axes. */
void dl_grouped(dl_in_ctx *c, dl_in_value *v, int n, const int *first_dim);
/* Gives an axis atoms that n others do not have: two axes of one tensor may come from one axis. */
void dl_own_atoms(dl_in_ctx *c, dl_in_axis *a, int n, const dl_in_axis *others);
/* Drops factors of size 1 that no dimension is any more from their axes. */
void dl_drop_unit_atoms(const dl_writer *w, dl_in_value *v);
/* Drops axes of size 1 that no dimension is. */
void dl_drop_ones(dl_in_ctx *c, dl_in_value *v);

/* ---- bind.c ---- */

/* The label of an application of a layer or a module; NULL: another statement. */
const char *dl_label_of(const dl_in_stmt *s);
/* Statements with one label become applications of one that is bound to a variable. */
void dl_bind_layers(dl_writer *w, dl_in_body *b);

/* ---- tree.c, params.c, group.c, loops.c, print.c ---- */

dl_in_body *dl_new_body(dl_writer *w, const char *class, const char *path);
/* Value number i that a module's body reads: an input of its own, in the form of the outer one. */
dl_in_value *dl_enter(dl_in_ctx *inner, const dl_in_value *outer, int i);
/* Says ", over=N", or ", N=..." from the axis of a module's input that holds the batch: the input
 * states its axes, which binds their sizes. False: no input has the batch. */
bool dl_say_batch(dl_in_ctx *c);
/* The batch's size as an expression, "N" or "T / 4", likewise; NULL: no input has the batch. */
const char *dl_batch_count(dl_in_ctx *c);
/* A call of a body with n values and a label: a statement, the last one. */
void dl_say_call(dl_in_ctx *c, dl_in_body *b, int n, dl_in_value *const *v, const char *path);
bool dl_write_nodes(dl_in_ctx *c, int from, int to, int depth);
/* A parameter or a buffer becomes a statement, a single number text. */
dl_in_value *dl_declare(dl_in_ctx *c, const dl_foreign_tensor *t);
/* Whether s can be a variable's name, and a label. */
bool dl_in_is_name(const char *s);
bool dl_in_is_label(const char *s);
/* "weight" of "blocks.0.fc.weight" cut off: the label of a layer. NULL: the name does not fit. */
const char *dl_layer_label(dl_in_ctx *c, const dl_foreign_tensor *weight,
                           const dl_foreign_tensor *bias);
/* The same of n tensors, some of them NULL, that are called LABEL.role[i]. Several nodes may apply
 * one layer: all in this body, with the same arguments. */
const char *dl_label_of_all(dl_in_ctx *c, int n, const dl_foreign_tensor *const *t,
                            const char *const *role);
void dl_put_label(dl_buf *out, const char *label);
void dl_group_bodies(dl_writer *w);
void dl_roll_loops(dl_writer *w, dl_in_body *b);
/* The statements of the model, whose results get these names; a module, whole. */
void dl_in_print_model(dl_writer *w, dl_buf *out, dl_in_body *b, const char *const *outputs);
void dl_in_print_module(dl_writer *w, dl_buf *out, dl_in_body *b);
const char *dl_label_in(dl_writer *w, const dl_in_body *b, const char *path);

/* ---- rules.c ---- */

/* Writes node c->n, or a fail(...) in its place. */
void dl_apply_rule(dl_in_ctx *c);
#endif
