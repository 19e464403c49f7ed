/* The parts of the format pytorch: what they share.
 *
 * In: the graph "predict" as the front end built it. Each value becomes a Python expression; a node
 * whose value is read once, on the same line of the model, stays within its reader's expression,
 * and others are assigned to names. Layers of torch.nn hold the parameters where a layer's names
 * and use allow it. */
#ifndef DL_PYTORCH_PARTS_H
#define DL_PYTORCH_PARTS_H
#include "exports/export.h"
#include "ir/walk.h"

/* Python's precedence: operands of a lower level need parentheses. */
typedef enum {
    TORCH_TEST, /* comparisons */
    TORCH_OR,
    TORCH_AND,
    TORCH_SUM,
    TORCH_PRODUCT,
    TORCH_SIGN,
    TORCH_POWER,
    TORCH_ATOM
} torch_level;

/* An expression. `s` NULL: an error is set. */
typedef struct {
    const char *s;
    torch_level level;
    bool is_name;   /* it may stand in several places */
    bool is_number; /* Python's number, no tensor */
} torch_text;

/* A layer of torch.nn that holds the parameters of one path: its constructor. */
typedef struct {
    const char *path; /* interned: "blocks.0.attn.proj" */
    const char *made; /* "nn.Linear(384, 384)" */
    int uses;         /* nodes that apply it */
    bool has_bias, refused;
} torch_layer;

/* A module that holds others, or a layer, or a parameter. */
typedef struct torch_member torch_member;
struct torch_member {
    const char *name;         /* interned */
    const torch_layer *layer; /* NULL: */
    const dl_var *var;        /* a parameter or a buffer; NULL: a container */
    bool is_list;             /* a container: its members are 0, 1, 2... */
    DL_ARRAY(torch_member *) members;
};

/* Helpers that the file may need, in the order in which it has them. */
typedef enum {
    TORCH_HELP_GROUP,
    TORCH_HELP_ATTENTION,
    TORCH_HELP_GATHER,
    TORCH_HELP_SCATTER,
    TORCH_HELP_SCATTER_MAX,
    TORCH_HELP_ALONG,
    TORCH_HELP_RECURRENCE,
    TORCH_HELP_SCAN,
    TORCH_HELP_STEPS,
    TORCH_HELP_GRADIENT,
    TORCH_NHELPS
} torch_help;

/* "name = text", from a line of the model (0: none). `before`: the lines of a function that the
 * text calls, or NULL. */
typedef struct {
    const char *name, *text;
    int line;
    const char *before;
} torch_statement;

typedef struct torch_export torch_export;
struct torch_export {
    const dl_export *e;
    dl_arena *arena;
    dl_error *err;
    /* Adds the statements of the graph's nodes (forward.c): for rules of nodes with a graph of
     * their own. */
    bool (*put_nodes)(torch_export *t);
    /* The model's graph, and within a scan its body. */
    const dl_graph *graph; /* at N = samples */
    const dl_graph *next;  /* at N = samples + 1; NULL: the model fixes the number of samples */
    int64_t samples;
    const dl_uses *uses;
    const dl_type **type_next; /* by value id: the type in `next` */
    torch_text *text;          /* by value id */
    const char *device;        /* that of the first input */
    const char *base;          /* the model's class */
    DL_ARRAY(torch_layer) layers;
    torch_member root;
    DL_ARRAY(const char *) taken;         /* names of Python's variables */
    unsigned helps;                       /* bits of torch_help */
    bool reads_samples;                   /* an expression has `n` */
    bool has_gradients;                   /* the model has a node of `grad` */
    DL_ARRAY(torch_statement) statements; /* of forward, or of a function in it */
    dl_buf body;                          /* the same as text */
    int indent;
    int line; /* of the model, of the last statement */
    int next_name;
};

/* ---- text.c ---- */
/* An atom, a name, or another level, formatted. */
torch_text dl_torch_atom(torch_export *t, const char *format, ...) DL_PRINTF(2, 3);
torch_text dl_torch_at(torch_export *t, torch_level level, const char *format, ...) DL_PRINTF(3, 4);
/* The text, in parentheses where its level is lower. */
const char *dl_torch_within(torch_export *t, torch_text x, torch_level level);
/* A number as Python has it: with a point where it is of floats. */
const char *dl_torch_number(torch_export *t, double v, dl_dtype dtype);
const char *dl_torch_dtype(dl_dtype dtype); /* "torch.float32" */
/* A list of integers: "3" where all are equal, "(3, 5)". */
const char *dl_torch_ints(torch_export *t, int n, const int64_t *v);
/* Adds a statement, split into lines at its brackets where it is long. */
void dl_torch_put(dl_buf *to, int indent, const char *text);

/* ---- names.c ---- */
/* A name that Python and this file allow for a variable. */
const char *dl_torch_name(torch_export *t, const char *name);
bool dl_torch_is_taken(const torch_export *t, const char *name);
void dl_torch_take(torch_export *t, const char *name);
/* Whether nn.Module can have an attribute of this name. */
bool dl_torch_is_attribute(const char *name);

/* ---- layers.c ---- */
/* Finds the layers and builds the tree of modules from the names of parameters and states. */
void dl_torch_find_layers(torch_export *t);
/* The layer that a node applies; NULL: none. */
const torch_layer *dl_torch_layer_of(torch_export *t, const dl_node *n);
/* Whether an addition is that of a layer's bias, which the layer does itself. */
bool dl_torch_is_bias(torch_export *t, const dl_node *n);

/* ---- layer_kinds.c ---- */
/* The parameter or state that a value is, under whatever axis names; NULL: another value. */
const dl_var *dl_torch_var_of(const dl_value *v);
/* The constructor of the layer that could apply a node, if it is one, with the path of its
 * parameters, and how many it has; NULL: none could. */
const char *dl_torch_constructor(torch_export *t, const dl_node *n, bool bias, const char **path,
                                 int *parameters);

/* A convolution, or a transposed one. */
bool dl_torch_is_convolution(const dl_node *n);

/* ---- modules.c ---- */
void dl_torch_build_tree(torch_export *t);
/* Writes the statements of __init__ that make modules and parameters. */
void dl_torch_put_init(torch_export *t, dl_buf *to);
/* "self.blocks[0].attn.proj" */
const char *dl_torch_path(torch_export *t, const char *path);
/* The number of modules of a list: "self.blocks". */
int dl_torch_list_size(torch_export *t, const char *path);

/* ---- buffers.c ---- */
/* The buffer of a table, or of an array's statistics ("mean", "deviation"). */
const char *dl_torch_table(torch_export *t, const dl_var *v);
const char *dl_torch_statistic(torch_export *t, const char *array, const char *what);
/* The array of that, by which an output is undone: the target's name, and the output's where others
 * have the statistics in another shape. */
const char *dl_torch_undo_array(torch_export *t, int output);
void dl_torch_put_buffers(torch_export *t, dl_buf *to);

/* ---- helpers.c ---- */
void dl_torch_put_helpers(const torch_export *t, dl_buf *to);

/* ---- forward.c ---- */
/* Writes the statements of forward. */
bool dl_torch_put_forward(torch_export *t);
/* Adds the statements of the graph's nodes. */
bool dl_torch_put_nodes(torch_export *t);

/* ---- values.c ---- */
/* The expression of an operand; as a tensor where it is a number. */
torch_text dl_torch_operand(torch_export *t, const dl_node *n, int i);
torch_text dl_torch_tensor(torch_export *t, const dl_node *n, int i);
torch_text dl_torch_as_tensor(torch_export *t, torch_text number, dl_dtype dtype);
/* The operand's name: it is assigned to one where it has none. */
const char *dl_torch_named(torch_export *t, const dl_node *n, int i);
/* Adds the statement that assigns a value's expression, which is the name from there on. */
void dl_torch_assign(torch_export *t, dl_value *v, const char *name, const dl_loc *loc);
const char *dl_torch_fresh(torch_export *t); /* a name: h1, h2... */
/* The expression as a tensor where it is a number. */
torch_text dl_torch_value(torch_export *t, const dl_value *v);

/* ---- blocks.c ---- */
/* Writes the statements, and `end` after them. */
void dl_torch_put_statements(torch_export *t, const char *end);

/* ---- sizes.c ---- */
/* The graph becomes the one whose nodes are said; `next`: as in torch_export. */
void dl_torch_enter(torch_export *t, const dl_graph *g, const dl_graph *next);
/* A number that is `now` with the graph's samples and `then` with one more: "6", "n", "n * 6". */
const char *dl_torch_count(torch_export *t, int64_t now, int64_t then);
const char *dl_torch_size(torch_export *t, const dl_value *v, int axis);
/* Whether the size depends on the number of samples. */
bool dl_torch_varies(const torch_export *t, const dl_value *v, int axis);
/* The sizes of all axes, with commas. */
const char *dl_torch_shape(torch_export *t, const dl_value *v);
/* The same node with one sample more; NULL: the number of samples is fixed. */
const dl_node *dl_torch_next(const torch_export *t, const dl_node *n);
/* The axes of `over` as dimensions: "1", "(2, 3)"; "" where there is none. */
const char *dl_torch_dims(torch_export *t, const dl_node *n);
/* The operand with its axes where those of the type are: permuted, with dimensions of size 1. */
torch_text dl_torch_aligned(torch_export *t, const dl_node *n, int i, const dl_type *to);

/* ---- gradients.c ---- */
/* Has the graph, or a body in it, a node of `grad`? */
bool dl_torch_has_gradients(const dl_graph *g);
/* Is a gradient taken by the value? Then it is assigned to a name as a variable of its own. */
bool dl_torch_is_variable(const torch_export *t, const dl_value *v);
void dl_torch_put_variable(torch_export *t, dl_value *v, const char *name, const dl_loc *loc);

/* ---- axes.c, composites.c ---- */
/* Zeros before and after an axis that has so many after it. */
torch_text dl_torch_padded(torch_export *t, torch_text x, int after, int64_t lo, int64_t hi);
/* Is it a weight of ones, or a bias of zeros, that a group norm has where it has no parameters? */
bool dl_torch_is_no_affine(const torch_export *t, const dl_node *n);

/* ---- rules.c ---- */
/* A rule makes the expression of a node's first result. `word`: its row's. */
typedef torch_text dl_torch_rule(torch_export *t, const dl_node *n, const char *word);
torch_text dl_torch_rule_of(torch_export *t, const dl_node *n);
#define ROW(op, rule, word) dl_torch_rule dl_torch_##rule;
#include "exports/pytorch/rules.def"
#undef ROW
#endif
