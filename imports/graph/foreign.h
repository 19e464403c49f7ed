/* A graph of another program, as one of the readers (pt2/, onnx/) fills it and the writer (dl/)
 * reads it.
 *
 * In: an archive. Out: nodes in an order in which each operand precedes its user, tensors with
 * shapes and types, parameters and buffers under their own program's names, and for each node the
 * stack of modules that it belongs to. All of it lives in one arena. */
#ifndef DL_IMPORTS_FOREIGN_H
#define DL_IMPORTS_FOREIGN_H
#include "ir/base/str.h"
#include "runtime/formats/stored.h"

enum { DL_FOREIGN_RANK = 8 };

/* Where a tensor comes from. */
typedef enum {
    DL_FOREIGN_RESULT, /* of a node */
    DL_FOREIGN_INPUT,  /* of the user */
    DL_FOREIGN_PARAMETER,
    DL_FOREIGN_BUFFER,
    DL_FOREIGN_CONSTANT /* neither trained nor saved with the weights */
} dl_foreign_origin;

/* The numbers of a parameter, buffer or constant, as strides of its storage, which the reader has
 * in memory or in a file. */
typedef struct {
    const void *held;                /* the storage; NULL: it is in a file */
    int64_t at, bytes;               /* of the whole storage, in the file */
    int64_t stride[DL_FOREIGN_RANK]; /* in elements */
    int64_t offset;                  /* of the first element in the storage, in elements */
    int entry;                       /* the reader's: of the archive, or which file */
} dl_foreign_data;

typedef enum {
    DL_FOREIGN_UNKNOWN,
    DL_FOREIGN_INT,
    DL_FOREIGN_BOOL,
    DL_FOREIGN_FLOAT
} dl_foreign_class;

typedef struct {
    int id;           /* its place in the graph's tensors */
    const char *name; /* in the graph, unique */
    const char *path; /* of a parameter, buffer or constant: its name in the state dict */
    dl_foreign_origin origin;
    dl_foreign_class class;
    dlr_st_dtype dtype; /* of classes INT, BOOL and FLOAT */
    bool pair; /* it is complex: floats whose last axis, of size 2, is not one of the program's */
    int rank;
    int64_t shape[DL_FOREIGN_RANK]; /* a size that the archive leaves open has its example's */
    bool open[DL_FOREIGN_RANK];     /* it is open: the batch */
    const dl_foreign_data *data;    /* NULL: none */
} dl_foreign_tensor;

typedef enum {
    DL_ARG_NONE,
    DL_ARG_TENSOR,  /* tensors[0] */
    DL_ARG_TENSORS, /* n tensors, of which some may be NULL */
    DL_ARG_INT,     /* ints[0]; also a bool */
    DL_ARG_INTS,
    DL_ARG_FLOAT, /* reals[0] */
    DL_ARG_FLOATS,
    DL_ARG_COMPLEX, /* reals[0] + reals[1] i */
    DL_ARG_STRING,
    DL_ARG_OPEN, /* a size that is known when the model runs */
    DL_ARG_OTHER /* a device, a layout, a graph: of no meaning to the writer */
} dl_foreign_arg_kind;

typedef struct {
    const char *name;
    dl_foreign_arg_kind kind;
    int n;
    const dl_foreign_tensor *const *tensors;
    const int64_t *ints;
    const double *reals;
    const char *text;
} dl_foreign_arg;

/* A module that a node belongs to: "blocks.0.attn" of class "my.Attention". A second call of the
 * same module is another one: its number is `call`. */
typedef struct {
    const char *path, *class;
    int call;
} dl_foreign_module;

typedef struct {
    const char *op;   /* "aten.conv2d.default" */
    const char *name; /* in its graph, where that gives names to nodes; else NULL */
    int n_args, n_results, depth;
    const dl_foreign_arg *args;
    const dl_foreign_tensor *const *results;
    const dl_foreign_module *stack; /* depth modules, the outermost first; the root is left out */
    const char *function;           /* of the user that calls the op, or NULL */
    int line;                       /* in it, or 0 */
} dl_foreign_node;

typedef struct {
    dl_arena *arena;
    const char *path;  /* of the archive */
    const char *class; /* of the root module, without its package */
    DL_ARRAY(dl_foreign_tensor *) tensors;
    DL_ARRAY(dl_foreign_node) nodes;
    DL_ARRAY(const dl_foreign_tensor *) inputs;
    DL_ARRAY(const dl_foreign_tensor *) outputs;
    /* The reader's: reads a storage that is in a file, `bytes` bytes. Errors: DL_INPUT, DL_IO. */
    bool (*read)(void *context, const dl_foreign_data *data, void *to, dl_error *err);
    void *context;
} dl_foreign_graph;

/* Fails with DL_INPUT: the archive, the place in it, and the text. */
bool dl_foreign_bad(dl_error *err, const char *path, const char *place, const char *format,
                    va_list args) DL_PRINTF(4, 0);
/* The argument of that name, or NULL: one that has its default is left out. */
const dl_foreign_arg *dl_foreign_find(const dl_foreign_node *n, const char *name);
/* Its values, or the default. */
int64_t dl_foreign_int(const dl_foreign_node *n, const char *name, int64_t standard);
double dl_foreign_real(const dl_foreign_node *n, const char *name, double standard);
const char *dl_foreign_text(const dl_foreign_node *n, const char *name, const char *standard);
const dl_foreign_tensor *dl_foreign_operand(const dl_foreign_node *n, const char *name);
/* Whether t is among the node's arguments. */
bool dl_foreign_reads(const dl_foreign_node *n, const dl_foreign_tensor *t);
/* The innermost frame of a traceback of Python's that is not PyTorch's own, in the arena; without
 * one both stay as they are. */
void dl_foreign_user_line(dl_arena *arena, const char *trace, const char **function, int *line);
/* Elements of a tensor. */
int64_t dl_foreign_count(const dl_foreign_tensor *t);
/* Strides of numbers that stand in row-major order. */
void dl_foreign_set_strides(const dl_foreign_tensor *t, dl_foreign_data *data);
/* Reads the elements in row-major order: `to` has dl_foreign_count elements of t->dtype. A storage
 * with a checksum is checked first. Errors: DL_INPUT, DL_IO. */
bool dl_foreign_load(const dl_foreign_graph *g, const dl_foreign_tensor *t, void *to,
                     dl_error *err);
/* The same as doubles. */
bool dl_foreign_numbers(const dl_foreign_graph *g, const dl_foreign_tensor *t, double *to,
                        dl_error *err);
#endif
