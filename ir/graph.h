/* The graph: the computation of one step, as pure nodes over tensors with named axes, in
 * topological order.
 *
 * A module has one or more graphs of one model ("train", "eval"), which share variables by name. A
 * value is a node's result or a variable. A step writes only through the graph's results of role
 * UPDATE: at the end of the step, variable v holds value x. Everything is allocated in the
 * module's arena. */
#ifndef DL_GRAPH_H
#define DL_GRAPH_H
#include "ir/collective.h"
#include "ir/op.h"

typedef struct dl_node dl_node;
typedef struct dl_value dl_value;
typedef struct dl_var dl_var;
typedef struct dl_kernel dl_kernel; /* kernel.h */
typedef struct dl_graph dl_graph;

/* A place in a source file; line 0: none. `file` is interned, in the user's spelling. */
typedef struct {
    const char *file;
    int line, column;
} dl_loc;

struct dl_value {
    uint32_t id;  /* prints as %id; is kept by passes */
    dl_node *def; /* the node whose result it is, or */
    dl_var *var;  /* the variable whose value it is */
    int index;    /* its index among the results of `def` */
    dl_type type;
    int64_t offset; /* bytes from the arena's start, once memory is planned; -1 before */
};

struct dl_node {
    dl_op op;
    int nin, nout, nattrs;
    dl_value **in;
    dl_value *out;
    dl_attr *attrs;
    dl_loc loc;
    dl_kernel *kernel; /* DL_OP_fused */
    dl_graph *body;    /* DL_OP_scan (body.h) */
};

typedef enum {
    DL_VAR_INPUT,  /* fed by the host every step */
    DL_VAR_TARGET, /* the same, a model's target */
    DL_VAR_PARAM,  /* trained */
    DL_VAR_STATE,  /* kept from step to step: optimiser moments, counters, running statistics */
    DL_VAR_HYPER, /* a scalar that the host sets before the first step, and may change between steps
                   */
    DL_VAR_TABLE, /* constants in the model's text: initialised once, never written */
    DL_VAR_COPY,  /* a parameter in another element type: updated together with it, and refreshed
                     when the host writes the parameter */
    DL_NVAR_ROLES
} dl_var_role;
extern const char *const dl_var_roles[DL_NVAR_ROLES]; /* "input", "target", "param", "state",
                                                         "hyper", "table", "copy" */

/* A variable's initial values. Random ones are drawn by Philox from (seed, the variable's name,
 * logical index), so that they depend on neither layout nor order. */
typedef enum {
    DL_INIT_ZERO,
    DL_INIT_CONST,        /* a */
    DL_INIT_NORMAL,       /* mean a, standard deviation b */
    DL_INIT_TRUNC_NORMAL, /* the same, cut at two standard deviations */
    DL_INIT_UNIFORM,      /* from a to b */
    DL_INIT_GIVEN,        /* a file of weights has them: no run begins without it */
    DL_NINITS
} dl_init_kind;
extern const char *const dl_init_kinds[DL_NINITS]; /* "zero", "const", "normal", "trunc_normal",
                                                      "uniform" */
typedef struct {
    dl_init_kind kind;
    double a, b;
} dl_init;

/* A cut of a tensor between the ranks of a group: the share of `rank` (collective.h) of the `size`
 * elements along an axis. With `parts`, the axis is a sequence of equal parts, and the rank has
 * its share of each, such as its heads of queries, keys and values that one GEMM computes. Only a
 * tensor's first axis may have several parts: there a part's share is contiguous in memory. */
typedef struct {
    const char *group; /* interned; "tp" */
    int axis, ranks, rank, parts;
    int64_t size;
} dl_var_cut;

/* The shard of a whole tensor that a variable is: the result of `n` cuts, each applied to the
 * shard that the cut before leaves. 0: the variable is the whole tensor. */
enum {
    DL_MAX_CUTS = 2 /* over tensor parallel ranks, and over the ranks that would hold equal shards
                       otherwise */
};
typedef struct {
    int n;
    dl_var_cut cut[DL_MAX_CUTS];
} dl_var_piece;

struct dl_var {
    dl_var_role role;
    const char *name; /* interned; for parameters the key in PyTorch's state dict */
    const char *of;   /* the parameter that a COPY or a STATE belongs to; NULL: none */
    const char *by;   /* PARAM: the objective whose optimiser trains it (interned); NULL: the loss
                         does, where the graph has no objectives, else none */
    dl_init init;
    DL_ARRAY(double) numbers; /* TABLE: its elements, row-major */
    dl_loc loc;
    dl_var_piece piece; /* `value` has the shard's type */
    dl_value value;
};

typedef enum {
    DL_RESULT_OUTPUT,
    DL_RESULT_LOSS,      /* one scalar; name "loss" */
    DL_RESULT_METRIC,    /* a scalar */
    DL_RESULT_FIGURE,    /* a 2-D slice; figures of several panels are several results "name/0",
                            "name/1" */
    DL_RESULT_GRAD,      /* the gradient of `var` */
    DL_RESULT_UPDATE,    /* the next value of `var` */
    DL_RESULT_OBJECTIVE, /* a scalar that an optimiser of its own minimises, by the parameters whose
                            `by` is its name; until pass autodiff, in the order of their steps */
    DL_RESULT_MEASURE,   /* a loss or metric of each sample, [N] (passes/parallel/per_sample.h) */
    DL_NRESULT_ROLES
} dl_result_role;
extern const char
    *const dl_result_roles[DL_NRESULT_ROLES]; /* "output", "loss", "metric", "figure",
                                                 "grad", "update", "objective", "measure" */

typedef struct {
    dl_result_role role;
    const char *name; /* interned */
    dl_value *value;
    dl_var *var;      /* GRAD, UPDATE */
    const char *undo; /* OUTPUT: the target whose normalisation undoes it (interned; the graph
                         "predict" has no targets); DL_UNDO_NONE: nothing does; NULL: not said */
} dl_result;
#define DL_UNDO_NONE "" /* no target has this name */

/* The graph of a batch before the last one of a step of several (passes/optim/accumulate.c). */
#define DL_GRAPH_ACCUMULATE "accumulate"

typedef struct dl_module dl_module;

struct dl_graph {
    dl_module *module;
    const char *name;          /* interned: "train", "accumulate", "eval" or "predict"; a body's is
                                  unique in the module */
    DL_ARRAY(dl_node *) nodes; /* topological order */
    DL_ARRAY(dl_var *) vars;
    DL_ARRAY(dl_result) results;
    DL_ARRAY(dl_kernel *) kernels; /* in order of first use, after fusion */
    uint32_t next_id;
    int64_t arena_bytes; /* exact peak, after memory planning; 0 before */
    bool is_body;        /* of a node, and not in the module's list */
    int64_t arena_at;    /* of a body: where the memory of its own values begins in the arena of the
                            graph that it is in */
};

struct dl_module {
    dl_arena *arena;
    DL_ARRAY(dl_graph *) graphs;
    int bodies;        /* that were made so far: their names differ */
    const char *fault; /* the first node of a pass that is larger than tensors may be, with its
                          place; or NULL */
};

dl_module *dl_module_new(dl_arena *parent);                      /* freed with module->arena */
dl_graph *dl_module_graph(const dl_module *m, const char *name); /* NULL when there is none */
dl_graph *dl_graph_new(dl_module *m, const char *name);

/* Adds a variable; &var->value is its value. */
dl_var *dl_graph_var(dl_graph *g, dl_var_role role, const char *name, dl_type type, dl_init init,
                     dl_loc loc);
/* The type of the whole tensor whose shard a variable of this type is. */
dl_type dl_piece_whole(dl_type type, const dl_var_piece *piece);
/* The share that a cut leaves of one part. */
dl_share dl_cut_share(const dl_var_cut *cut);
/* The index in the whole tensor of the shard's element `at` along an axis. Reduces `*n` to the
 * number of elements from there on that are contiguous in the whole, too. */
int64_t dl_piece_at(const dl_var_piece *piece, int axis, int64_t at, int64_t *n);
/* Can a variable of this type be that shard: are axes, ranks and sizes in range, and do the cuts
 * leave this type? */
bool dl_piece_fits(const dl_type *type, const dl_var_piece *piece);
/* Adds a table with a copy of `n` numbers, one for each element of the type: row-major, integers
 * for integer types. */
dl_var *dl_graph_table(dl_graph *g, const char *name, dl_type type, int n, const double *numbers,
                       dl_loc loc);
dl_var *dl_graph_find_var(const dl_graph *g, const char *name); /* NULL when there is none */
bool dl_graph_updates(const dl_graph *g); /* Has it the next value of a variable? */
/* The graph's variables by name, for many lookups; valid until a variable is added. */
typedef struct {
    const dl_var **by_name;
    int n;
} dl_var_set;
dl_var_set dl_var_set_new(const dl_graph *g, dl_arena *arena);
dl_var *dl_var_set_find(const dl_var_set *s,
                        const char *name); /* an interned name; NULL when there is none */
dl_result *dl_graph_result(dl_graph *g, dl_result_role role, const char *name, dl_value *value,
                           dl_var *var); /* valid until the next one is added */
dl_result *dl_graph_find_result(const dl_graph *g, dl_result_role role,
                                const char *name); /* name NULL: the first */

/* The node that makes v, if it is of this op; else NULL. */
static inline dl_node *dl_made_by(const dl_value *v, dl_op op) {
    return v->def && v->def->op == op ? v->def : NULL;
}

/* How many results a scan may get in addition to one for each state (ir/body.h). */
enum { DL_SCAN_KEPT = 32 };
/* A node with `nout` results of the given types, not yet in g->nodes; attributes are added by
 * dl_node_attr's order. */
dl_node *dl_node_new(dl_graph *g, dl_op op, int nin, dl_value *const *in, int nout,
                     const dl_type *types, dl_loc loc);
/* The same, appended to the graph. */
dl_node *dl_node_append(dl_graph *g, dl_op op, int nin, dl_value *const *in, int nout,
                        const dl_type *types, dl_loc loc);

/* The node's attribute, or NULL. */
const dl_attr *dl_node_attr(const dl_node *n, dl_attr_id id);
/* Is the name, which is interned, among these? */
bool dl_names_have(int n, const char *const *names, const char *name);
/* Is it among the names of the node's attribute, of kind NAMES? Without the attribute: no. */
bool dl_node_lists(const dl_node *n, dl_attr_id id, const char *name);
void dl_node_set(dl_graph *g, dl_node *n, dl_attr attr); /* adds or replaces, keeps schema order */
/* The values of attributes that the op's row promises; a missing one is an internal fault. */
double dl_node_float(const dl_node *n, dl_attr_id id);
int64_t dl_node_int(const dl_node *n, dl_attr_id id);
const char *dl_node_name(const dl_node *n, dl_attr_id id);
#endif
