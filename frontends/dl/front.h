/* The front end of the model language: from a `.dl` file to the graphs of its model.
 *
 *     dl_source *s = dl_source_read(arena, "models/unet.dl", &err);
 *     dl_diags *d = dl_diags_new(arena, s);
 *     dl_model *m = dl_model_parse(arena, s, d);
 *     dl_module *ir = dl_model_build(arena, m, &config, d);      // NULL: d->errors > 0
 *     dl_diags_print(&out, d, isatty(2));
 *
 * Nothing here prints, exits or keeps state between calls. */
#ifndef DL_FRONT_H
#define DL_FRONT_H
#include "frontends/dl/diag.h"

typedef struct dl_model dl_model;
typedef struct dl_facts dl_facts; /* facts.h */

/* Values that a configuration gives to a model's arguments. */
typedef enum {
    DL_SET_NONE,
    DL_SET_BOOL,
    DL_SET_INT,
    DL_SET_FLOAT,
    DL_SET_STRING,
    DL_SET_LIST
} dl_setting_kind;
typedef struct dl_setting dl_setting;
struct dl_setting {
    dl_setting_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const char *s;
        struct {
            const dl_setting *items;
            int n;
        } list;
    };
};

typedef struct {
    const char *name;
    dl_setting value;
} dl_argument;

typedef struct {
    const char *axis;
    int64_t size;
} dl_axis_size;

/* The argument that sizes the axes D, H and W whose size a model omits: a whole number for all of
 * them, or a list, [H, W] or [D, H, W]. A model with such axes that does not declare this argument
 * has it implicitly, with this default. */
#define DL_ARGUMENT_EDGE "data_size"
enum { DL_DEFAULT_EDGE = 64 };

/* The input of a build. Arguments that the model lacks are ignored (a configuration has other keys,
 * too); arguments that are not given keep their defaults. `sizes` are for axes of inputs and
 * targets whose size the model omits (N, the batch of one rank); they take precedence over
 * DL_ARGUMENT_EDGE. */
typedef struct {
    const dl_argument *arguments;
    int narguments;
    const dl_axis_size *sizes;
    int nsizes;
    bool any_batch; /* no size of N was requested: a model may fix it */
} dl_model_config;

/* Parses a source. Faults are added to `diags`; NULL when the file has no model that can be
 * examined. */
dl_model *dl_model_parse(dl_arena *arena, const dl_source *source, dl_diags *diags);

const char *dl_model_name(const dl_model *m);
/* The model's arguments in order, which are configuration keys: name and default (DL_SET_NONE when
 * it has none, or one that is not a literal). */
const dl_argument *dl_model_arguments(const dl_model *m, int *n);
/* The declaration of argument i; for an implicit DL_ARGUMENT_EDGE, the axis that needs it. */
dl_span dl_model_argument_place(const dl_model *m, int i);

/* Builds the graphs "train" and "eval": variables in order of appearance (parameters with PyTorch's
 * names), results of role OUTPUT, LOSS, METRIC, FIGURE, and UPDATE for batch norm's running
 * statistics. NULL: diags->errors is the number of faults (those of parsing included). The caller
 * owns the module: dl_arena_free(module->arena). */
dl_module *dl_model_build(dl_arena *parent, const dl_model *m, const dl_model_config *config,
                          dl_diags *diags);

/* Checks a model without a configuration. Axes of unknown size are tried at several sizes; a fault
 * that depends on the size names the assumed one. Returns the module at those sizes, in `arena`, or
 * NULL when there are errors. whole: it is the whole model; parts that depend on arguments without
 * a default are not elaborated. */
dl_module *dl_model_check(dl_arena *arena, const dl_model *m, dl_diags *diags, bool *whole);

/* From now on dl_model_check adds what it finds to `facts`, as it replaces the facts of an earlier
 * check. */
void dl_model_record(dl_model *m, dl_facts *facts);

/* Number of trained elements in graph g: the sum over its parameters. */
int64_t dl_count_parameters(const dl_graph *g);

/* The syntax tree as text, for `--dump=ast`. */
void dl_model_print_ast(dl_buf *out, const dl_model *m);
#endif
