/* Elaboration: runs a model's syntax tree with its compile-time values and builds a graph of
 * tensors.
 *
 * Compile-time values (numbers, strings, lists) are computed here; tensors become nodes through
 * ir/builder.h. A fault is reported once and its value is poison, which every operation passes on
 * without another report. */
#ifndef DL_ELAB_H
#define DL_ELAB_H
#include "frontends/dl/ast.h"
#include "frontends/dl/front.h"
#include "ir/builder.h"

typedef enum {
    DL_V_POISON, /* the result of a fault already reported */
    DL_V_NONE,
    DL_V_BOOL,
    DL_V_INT,
    DL_V_FLOAT,
    DL_V_STR,
    DL_V_LIST,
    DL_V_TENSOR,
    DL_V_LAYER /* a module or layer bound to its arguments */
} dl_val_kind;

typedef struct dl_val dl_val;
typedef struct dl_layer dl_layer;
typedef struct dl_arguments dl_arguments;
typedef struct dl_call dl_call;
typedef struct {
    DL_ARRAY(dl_val) items;
} dl_val_list;

struct dl_val {
    dl_val_kind kind;
    dl_span origin;       /* the expression that made it */
    const char *name;     /* the variable that it was read from, for messages; or NULL */
    const dl_ast *uneven; /* FLOAT: the division of whole numbers in it that left a remainder */
    bool batch;           /* INT, FLOAT: it depends on the batch size, */
    double doubled;       /* and has this value for a batch twice as large */
    bool mixed; /* TENSOR: broadcasting determined the order of its axes, from the operands'
                   (doubt.c) */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s;
        dl_val_list *list;
        dl_value *t;
        dl_layer *layer;
    };
};

/* A size bound to an axis name; `sizes_differ` after two declarations disagreed. */
typedef struct {
    const char *name;
    int64_t size, other;
    dl_span where, where_other;
    bool sizes_differ;
} dl_size_binding;

typedef struct {
    const char *name;
    dl_val value;
} dl_binding;

typedef struct dl_scope dl_scope;
struct dl_scope {
    dl_scope *parent;
    DL_ARRAY(dl_binding) names;
    DL_ARRAY(const dl_ast *)
    functions; /* local functions; a later one of the same name replaces an earlier one */
    DL_ARRAY(dl_size_binding) sizes;
};

/* One pipeline: the source of a name for its unlabelled parameter layer. */
typedef struct {
    const char *variable; /* the variable that it is assigned to, or NULL */
    int unlabelled;       /* parameter layers without a label so far */
    dl_span first;        /* the first of them */
} dl_pipeline;

/* A step of a pipeline that may make parameters: the source of their names. */
typedef struct dl_step dl_step;
struct dl_step {
    dl_step *outer;    /* the module application that it is in */
    const char *label; /* or NULL */
    dl_pipeline *pipeline;
    const char *path; /* the full path, when it has been computed */
    dl_span where;
    int made;        /* parameters made under it */
    dl_layer *layer; /* the bound layer that this is an application of, or NULL */
    int application; /* the number of the application, from 1 */
};

/* A module or a layer with parameters, bound to its arguments and to the place that names it: a
 * value. However often it is applied, it has one set of parameters, which its first application
 * makes. */
struct dl_layer {
    const char *name;         /* of the module or built-in */
    const dl_ast *module;     /* or NULL */
    const dl_arguments *args; /* the module's */
    const dl_call *call;      /* the built-in's arguments, all but its tensor */
    dl_step *step;            /* where it was bound: label and pipeline */
    int applied;
    bool refused; /* a report was made that it is no tensor: once is enough */
};

/* A module or function being applied, innermost first. */
typedef struct dl_frame dl_frame;
struct dl_frame {
    dl_frame *outer;
    const dl_ast *what, *where;
};

typedef struct {
    dl_var *var;
    const char *layer; /* kind of layer, interned; NULL for `param` */
    const char *role;  /* "weight", "bias" */
    double fan_in, fan_out;
    dl_span where;
    bool used;
    /* the step that made it, or shared it last; NULL in the model's own text */
    const dl_step *step;
} dl_param_info;

typedef struct {
    const char *layer, *role;
    const char *dist; /* "normal", ... or "constant" */
    double a, b;
    dl_span where;
} dl_init_rule;

/* A label of the statement `optimize`, and whether a parameter has it. */
typedef struct {
    const char *text;
    dl_span where;
    bool found;
} dl_set_label;

/* A statement `optimize`: a loss, and the parameters that it trains. */
typedef struct {
    const char *name; /* interned */
    dl_span where;
    DL_ARRAY(dl_set_label) labels;
    dl_val loss;
    dl_value *value; /* the loss as one number; NULL: it is none */
} dl_objective;

typedef enum { DL_IN_FILE, DL_IN_MODULE, DL_IN_MODEL } dl_place;

typedef struct {
    dl_arena *arena;
    const dl_source *source;
    dl_diags *diags;
    dl_diag *last; /* the latest report, for notes */
    const dl_ast *file, *model;
    const dl_model_config *config;
    int64_t assumed; /* assumed size of axes without a known size (only for checks), or 0 */
    DL_ARRAY(const char *) assumed_axes;
    bool train, syntax_faults;
    dl_builder b;
    dl_scope *global, *scope;
    dl_frame *frame;
    dl_step *step;
    dl_place place;
    DL_ARRAY(dl_param_info) params;
    DL_ARRAY(dl_layer *) layers; /* all bound layers */
    DL_ARRAY(dl_init_rule) rules;
    DL_ARRAY(dl_objective) objectives;
    DL_ARRAY(const char *) poisoned; /* names in statements with syntax errors */
    int64_t work;
    int depth;
    bool exhausted;
    bool returned;
    dl_val result;
    bool has_output, has_loss;
    dl_facts *facts; /* what is told of expressions and layers; NULL: nothing */
} dl_elab;

/* Reports. Each returns poison. */
dl_val dl_bad(dl_elab *E, dl_span where, dl_diag_id id, const char *format, ...) DL_PRINTF(4, 5);
void dl_note(dl_elab *E, dl_span where, const char *format, ...) DL_PRINTF(3, 4);
void dl_help(dl_elab *E, const char *format, ...) DL_PRINTF(2, 3);
/* Adds a note such as "'h' is f32[N=2, C=8], from here". */
void dl_note_tensor(dl_elab *E, dl_val v);
/* A value's words for a message: its name, "'h'", or `otherwise`, such as "the first operand". */
const char *dl_val_words(dl_elab *E, dl_val v, const char *otherwise);
/* True, reported: v is a layer in a place that needs a tensor. */
bool dl_refuse_layer(dl_elab *E, dl_span where, dl_val v);
/* Counts work; false (reported once) when the budget is used up. */
bool dl_spend(dl_elab *E, dl_span where, int64_t steps);

/* Adds a tensor, or the number of an argument, to E->facts. (value.c) */
void dl_tell(dl_elab *E, dl_span where, dl_val v);

/* Values (value.c). */
dl_val dl_poison(void);
dl_val dl_val_int(int64_t i, dl_span where);
dl_val dl_val_size(const char *axis, int64_t size, dl_span where); /* of an axis of this name */
dl_val dl_val_float(double f, dl_span where);
dl_val dl_val_bool(bool b, dl_span where);
dl_val dl_val_str(const char *s, dl_span where);
dl_val dl_val_tensor(dl_value *t, dl_span where);
dl_val dl_val_layer(dl_elab *E, dl_layer layer, dl_step *step, dl_span where);
dl_val dl_val_new_list(dl_elab *E, dl_span where);
/* A configuration's value. */
dl_val dl_setting_value(dl_elab *E, dl_span where, const dl_setting *s);
bool dl_val_append(dl_elab *E, dl_val list, dl_val item, dl_span where);
bool dl_val_is_number(dl_val v); /* INT, FLOAT or BOOL */
double dl_val_number(dl_val v);
/* A description for messages: "a whole number", "f32[N=2]". */
const char *dl_val_describe(dl_elab *E, dl_val v);
/* Reads a whole number of at least `least`; false: reported (`what` names it) or poison. */
bool dl_val_count(dl_elab *E, dl_val v, int64_t least, const char *what, int64_t *out);
/* Compile-time operators on values other than tensors. */
dl_val dl_fold_unary(dl_elab *E, const dl_ast *e, dl_val a);
dl_val dl_fold_binary(dl_elab *E, const dl_ast *e, dl_val a, dl_val b);

/* Scopes (scope.c). */
dl_scope *dl_scope_new(dl_elab *E, dl_scope *parent);
const dl_val *dl_scope_find(const dl_scope *s, const char *name);
void dl_scope_set(dl_elab *E, const char *name, dl_val v);
const dl_ast *dl_scope_function(const dl_scope *s, const char *name, dl_scope **home);
void dl_scope_bind_size(dl_elab *E, const char *name, int64_t size, dl_span where);
const dl_size_binding *dl_scope_size(const dl_scope *s, const char *name);
/* The most similar of all visible names, or NULL. */
const char *dl_scope_nearest(dl_elab *E, const char *name);
/* The most similar of `names` to an unknown word, or NULL. */
const char *dl_suggest(const char *word, const char *const *names, int n);
bool dl_is_poisoned(const dl_elab *E, const char *name);

/* Expressions (eval.c). `variable`: the name that a single layer gets, or NULL. */
dl_val dl_eval(dl_elab *E, const dl_ast *e);
dl_val dl_eval_named(dl_elab *E, const dl_ast *e, const char *variable);

/* Names (name.c), whose values do not depend on other expressions. */
/* The value of a name: a variable's, or the size of an axis. Poison, reported: it is not
 * defined. */
dl_val dl_name_value(dl_elab *E, const dl_ast *e);
/* The same for an expression that consists of the name alone, as dl_eval. */
dl_val dl_eval_name(dl_elab *E, const dl_ast *e);
/* Must be called at the start of each expression: false, reported, when the budget is used up or it
 * is nested too deep. */
bool dl_begin_eval(dl_elab *E, const dl_ast *e);
/* The file's module of that name, or NULL. */
const dl_ast *dl_find_module(const dl_elab *E, const char *name);
/* Whether a function, layer or module of this name exists. */
bool dl_is_callable(const dl_elab *E, const char *name);

/* Statements (stmt.c). */
void dl_exec_list(dl_elab *E, const dl_ast_list *list);

/* Declarations (declare.c). */
/* The type of a declaration. Omitted sizes come from the scope, the configuration or the assumption
 * when `declares`, and are -1 otherwise. False: reported. */
bool dl_eval_type(dl_elab *E, const dl_ast *type, bool declares, dl_type *out);
bool dl_only_in(dl_elab *E, const dl_ast *s, dl_place place,
                const char *what); /* false: reported */
void dl_declare_input(dl_elab *E, const dl_ast *s, dl_var_role role);
void dl_declare_parameter(dl_elab *E, const dl_ast *s);
/* Not trained; its numbers come from a file of weights. */
void dl_declare_buffer(dl_elab *E, const dl_ast *s);
void dl_declare_init(dl_elab *E, const dl_ast *s);
/* False, reported: the tensor v, described by `what`, has axes. */
bool dl_want_scalar(dl_elab *E, dl_span where, const char *what, dl_val v);

/* Warnings about legal programs that are hardly intended (doubt.c). */
/* Whether broadcasting determines the order of the axes of op's result, so that no single
 * declaration shows it. */
bool dl_mixes_axes(dl_op op, int n, const dl_val *in, const dl_type *result);
/* Warns of an elementwise op whose operands share an axis, while each has one that the other
 * lacks. */
void dl_doubt_outer_product(dl_elab *E, dl_span where, dl_op op, int n, const dl_val *in);
/* Warns of an `as` that gives the name of one of x's axes to another axis, or renames axes whose
 * order is not visible. */
void dl_doubt_renaming(dl_elab *E, const dl_ast *as, dl_val x, const dl_type *renamed);
/* Warns of a loss whose scores are the result of `maker` (softmax, sigmoid): the loss computes it
 * itself. */
void dl_doubt_scores(dl_elab *E, dl_span where, const char *loss, dl_val given, dl_op maker);
/* Warns of a softmax, or a cross entropy, along an axis of x that has one entry. */
void dl_doubt_one_class(dl_elab *E, dl_span where, const char *what, const dl_type *x, int axis);
/* Warns of a norm along an axis of x that has one entry. */
void dl_doubt_one_value(dl_elab *E, dl_span where, const char *layer, const dl_type *x, int axis);
/* Warns of an input of the model, [N, C, H, W], whose last axis has the size of an image's channels
 * and whose C has that of its height. */
void dl_doubt_image_axes(dl_elab *E, dl_span where, dl_val x);
/* Whether an argument without a default is unknown, so that nodes that depend on it were not built.
 * (loss.c) */
bool dl_is_partial(const dl_elab *E);
/* Takes a statement `optimize`, or reports a second one of its name (optimize.c). At the end of the
 * model: makes objectives and metrics of all of them, gives each parameter its objective, and
 * returns the sum of their losses; NULL: there are none, or after a report. */
void dl_add_objective(dl_elab *E, const dl_objective *o);
dl_value *dl_end_objectives(dl_elab *E);
/* Reports a loss, or an objective, that depends on no parameter by a gradient (loss.c). */
void dl_check_loss(dl_elab *E);
/* Warns where a new value of `loss` does not contain the one before; before may be NULL. */
void dl_check_replaced_loss(dl_elab *E, const dl_val *before, const dl_val *now);

/* Tensors (tensor.c). */
dl_val dl_tensor_op(dl_elab *E, dl_span where, dl_op op, int n, const dl_val *in, int nattrs,
                    const dl_attr *attrs, const dl_type *given);
/* An elementwise op on tensors and numbers: numbers become constants, element types are unified. */
dl_val dl_tensor_elem(dl_elab *E, dl_span where, dl_op op, int n, const dl_val *in, int nattrs,
                      const dl_attr *attrs);
dl_val dl_tensor_unary(dl_elab *E, const dl_ast *e, dl_val a);
dl_val dl_tensor_binary(dl_elab *E, const dl_ast *e, dl_val a, dl_val b);
/* The elements [from, to) of an axis; element i of it, without the axis. */
dl_val dl_tensor_slice(dl_elab *E, dl_span where, dl_val x, const char *axis, int64_t from,
                       int64_t to);
dl_val dl_tensor_at(dl_elab *E, dl_span where, dl_val x, const char *axis, int64_t i);
/* Elements from, from + step, ... below `to` of an axis. */
dl_val dl_tensor_every(dl_elab *E, dl_span where, dl_val x, dl_axis axis, int64_t from, int64_t to,
                       int64_t step);
/* Reports the index `arg` of `e`, which names no axis: x[:, 0] is written x[C=0]. */
dl_val dl_tensor_positional(dl_elab *E, const dl_ast *e, const dl_ast *arg, dl_val x);
dl_val dl_tensor_reduce(dl_elab *E, dl_span where, dl_op op, dl_val x, int n,
                        const char *const *over);
/* The common element type of operands: the floats' if any, else that of the integers, i64 if a
 * whole number exceeds i32; bool counts as f32. *tensors: is one of them a tensor? */
dl_dtype dl_tensor_meet(int n, const dl_val *in, bool *tensors);
/* The element type in which an op computes numbers of type `d`. */
dl_dtype dl_tensor_number_type(dl_op op, dl_dtype d);
dl_val dl_tensor_cast(dl_elab *E, dl_span where, dl_val x, dl_dtype to);
/* Pins a tensor of f32 or of 16-bit floats, so that mixed precision computes it in f32
 * (passes/precision/amp.c): for functions whose parts torch.autocast computes in f32. Other values
 * and types are returned unchanged. */
dl_val dl_tensor_pin(dl_elab *E, dl_span where, dl_val x);
/* x x, which mixed precision computes in f32, as torch.autocast does for powers. */
dl_val dl_tensor_square(dl_elab *E, dl_span where, dl_val x);
/* A list of numbers, or of such lists, as a tensor along the axes of t. `as` has checked their
 * sizes against the first item of each level; the element type follows from the numbers.
 * (literals.c) */
dl_val dl_tensor_filled(dl_elab *E, const dl_ast *as, dl_val list, dl_type t);
/* The element type of that name; false: reported at `at`. (literals.c) */
bool dl_dtype_named(dl_elab *E, const char *name, dl_span at, dl_dtype *out);
/* `x as i32`: of a tensor, or of a number, which becomes a tensor. (literals.c) */
dl_val dl_tensor_convert(dl_elab *E, const dl_ast *cast, dl_val x);
/* x with its axes, which equal those of `like`, in the order of `like`. */
dl_val dl_tensor_ordered(dl_elab *E, dl_span where, dl_val x, const dl_type *like);
/* v as a tensor: a number becomes an f32 constant. */
dl_val dl_tensor_of(dl_elab *E, dl_val v, dl_dtype dtype);
/* False, reported, when the type has more than 2^47 elements. */
bool dl_check_count(dl_elab *E, dl_span where, const dl_type *t);
/* Whether axes of one name have one size, except `skip` (or NULL); reports with words for both. */
bool dl_axes_agree(dl_elab *E, dl_span where, const char *what, int n, const dl_val *in,
                   const char *skip);

/* Calls (call.c): e is the item after `|>` (piped given) or a call in an expression (piped
 * NULL). */
dl_val dl_apply(dl_elab *E, const dl_ast *e, const dl_val *piped, dl_pipeline *pipeline,
                const dl_ast *as);
/* The cases of a call (apply.c): a local function; a module applied, or bound if there are no
 * tensors; a bound layer. */
dl_val dl_apply_function(dl_elab *E, const dl_ast *f, dl_scope *home, const dl_ast *call,
                         const dl_val *piped, const dl_ast_list *args);
dl_val dl_apply_module(dl_elab *E, const dl_ast *m, const dl_ast *call, const dl_val *piped,
                       const dl_ast_list *args, const dl_ast_list *targs, dl_step *step);
dl_val dl_apply_layer(dl_elab *E, dl_layer *l, const dl_ast *call, const dl_val *piped,
                      const dl_ast_list *targs, const dl_ast *as);
/* As dl_call's apply. */
dl_val dl_apply_layer_to(dl_elab *E, dl_layer *l, const dl_ast *cell, int n, dl_val *tensors);

/* Built-in layers and functions (builtin.c, rows in builtins.def). */
enum { DL_MAX_PARAMS = 10 };
typedef enum {
    DL_P_TENSOR, /* a tensor or number that becomes one */
    DL_P_ANY,
    DL_P_INT, /* a count, at least 1 */
    DL_P_NUMBER,
    DL_P_BOOL,
    DL_P_WINDOW, /* a count or one per spatial axis, at least 0 */
    DL_P_PAD,    /* the same, or `same` */
    /* the same as DL_P_WINDOW, or the weight itself as a tensor; required arguments that describe
     * a weight are then not needed */
    DL_P_KERNEL,
    DL_P_FACTOR, /* a number or one per spatial axis */
    DL_P_AXES,   /* axis names, not evaluated */
    DL_P_AXIS,
    DL_P_STR,
    DL_P_KEYED, /* keyword arguments of any other name, which are stored in `keyed`; the last
                   parameter */
    DL_P_REST   /* all remaining positional arguments; only keywords may follow */
} dl_param_kind;
typedef struct {
    const char *name;
    dl_param_kind kind;
    const char *otherwise; /* the default's text; NULL: must be given */
} dl_param_spec;

typedef struct {
    const char *name;
    const char *makes; /* "weight", "weight bias"... when it makes parameters; else NULL */
    dl_op op;          /* the op that it builds, if it is a single one */
    double (*fold)(double);
    const char *formula; /* the expression that defines it, in this language; or NULL */
    bool wide;           /* a formula that mixed precision computes in f32 */
    dl_param_spec params[DL_MAX_PARAMS];
} dl_builtin;

struct dl_call {
    dl_elab *E;
    const dl_builtin *what;
    dl_span where;   /* the whole call */
    dl_span name_at; /* the name in it */
    dl_step *step;
    const dl_ast *as; /* axes of a following `as [...]`, or NULL */
    dl_val arg[DL_MAX_PARAMS];
    const dl_ast *ast[DL_MAX_PARAMS];
    bool given[DL_MAX_PARAMS];
    dl_val_list rest;
    dl_val_list keyed; /* of DL_P_KEYED, with .name */
    /* Applies a module or layer to so many tensors, for the call of `cell` (apply.c). Poison,
     * reported: it takes others. */
    dl_val (*apply)(dl_elab *E, dl_layer *l, const dl_ast *cell, int n, dl_val *tensors);
};

const dl_builtin *dl_builtin_find(const char *name);
/* Does the layer make parameters of this role, such as "weight"? */
bool dl_builtin_makes(const dl_builtin *f, const char *role);
int dl_builtin_count(void);
const dl_builtin *dl_builtin_at(int i);
/* The usage for messages: "conv(channels, kernel, stride=1)". */
const char *dl_builtin_usage(dl_arena *arena, const dl_builtin *f);

/* The text of a label's parts, or of those of a metric's or figure's name (`what` names it in
 * messages); NULL: reported, or poison. (call.c) */
const char *dl_parts_text(dl_elab *E, const dl_ast_list *parts, const char *what);

/* The text of the label that an AST's items are; NULL after a report. (call.c) */
const char *dl_label_text(dl_elab *E, const dl_ast *e);

/* Parameters (param.c). The path of a step ("conv_down1.0"); NULL after a report when it has no
 * name. */
const char *dl_step_path(dl_elab *E, dl_step *step);
/* `outer` and `name` with a dot between, or the one that is not empty. */
const char *dl_join_path(dl_elab *E, const char *outer, const char *name);
/* A new parameter `role` of layer `c`; its init is the layer's default until the rules are applied.
 */
dl_val dl_make_param(dl_call *c, const char *role, dl_type type, dl_init init, double fan_in,
                     double fan_out);
/* The same, where the layer has several of that role: `suffix` is added to the name. */
dl_val dl_make_param_of(dl_call *c, const char *role, const char *suffix, dl_type type,
                        dl_init init, double fan_in, double fan_out);
/* The same for a buffer, with its value after the previous applications; and its next value. */
dl_val dl_make_state(dl_call *c, const char *role, dl_type type, dl_init init);
void dl_update_state(dl_call *c, const char *role, dl_val next);
/* Whether parameter `info` and the parameter of the same name that `step` requests are the same
 * one, requested by different applications of one bound layer. */
bool dl_is_shared(const dl_param_info *info, const dl_step *step);
/* conv.weight: all of that kind of layer f made so far. */
dl_val dl_layer_parameters(dl_elab *E, const dl_ast *e, const dl_builtin *f);
/* enc.weight of a bound layer: its parameter; of a bound module: all weights made in it so far. */
dl_val dl_bound_parameters(dl_elab *E, const dl_ast *e, dl_val layer);
/* The shared parameter for another step. Poison, reported: its shape differs. */
dl_val dl_share_param(dl_elab *E, dl_param_info *info, dl_step *step, const dl_type *want,
                      dl_span where);
void dl_apply_rules(dl_elab *E);

/* Runs the model (run.c) once into graph g (train or eval phase). */
void dl_elaborate(dl_elab *E, dl_graph *g);
#endif
