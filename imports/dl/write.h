/* Writes a foreign graph as a model of the language, as a person would: modules of the module
 * stack, loops over numbered blocks, axes by their roles, parameters by their own names. */
#ifndef DL_IMPORTS_WRITE_H
#define DL_IMPORTS_WRITE_H
#include "imports/graph/foreign.h"

typedef struct {
    const char *loss;  /* "mse", "cross_entropy", ... or NULL: the user writes it */
    const char *title; /* the model's name where the archive has none */
} dl_import_options;

/* An op that the language lacks, or a form of it. */
typedef struct {
    const char *op;
    int count;
    const char *node, *module, *function; /* of the first place; may be NULL */
    int line;
} dl_import_lack;

typedef struct {
    int nodes, lacking; /* of the graph; those that a fail(...) stands for */
    DL_ARRAY(dl_import_lack) lacks;
} dl_import_report;

/* Appends the model's text to `out`. Ops that the language lacks become fail(...), and rows of
 * the report. kept[id]: the model has this tensor of the graph by its own name. Errors: DL_INPUT
 * for a graph that no model can be; those of dl_foreign_load. */
bool dl_import_write(const dl_foreign_graph *g, const dl_import_options *options, dl_buf *out,
                     dl_import_report *report, const bool **kept, dl_error *err);
/* Whether --loss knows the word. */
bool dl_import_is_loss(const char *word);
#endif
