/* Checks that the IR is legal at its stage. It runs on everything that is parsed, and after every
 * pass in tests and debug builds. */
#ifndef DL_VALIDATE_H
#define DL_VALIDATE_H
#include "ir/graph.h"

/* Each stage includes the conditions of those above it, except that tensor nodes have become
 * kernels from FUSED on. */
typedef enum {
    DL_STAGE_TENSOR,  /* any op but `fused`; types re-inferred; topological order; results typed as
                         their variables */
    DL_STAGE_LAID,    /* contractions have their operands in the layouts that they need, variables
                         and their next values agree in theirs */
    DL_STAGE_FUSED,   /* only `fused` nodes and collectives; each kernel legal and matching its
                         operands' types and layouts */
    DL_STAGE_ORDERED, /* the node of every update follows all other readers of the old value */
    DL_STAGE_PLANNED, /* every value has an offset; nothing overlaps what is still to be read; peak
                         = arena_bytes */
} dl_stage;

/* The stage that a graph's form implies: PLANNED when a value has an offset, FUSED when it has
 * kernels, else TENSOR. */
dl_stage dl_graph_stage(const dl_graph *g);

/* False: err (DL_INTERNAL) names the graph, the node's text and what is wrong. */
bool dl_validate(const dl_graph *g, dl_stage stage, dl_error *err);
/* The same for all graphs, and whether they agree about the variables that they share. */
bool dl_validate_module(const dl_module *m, dl_stage stage, dl_error *err);

/* Parses a module's text (text.h) and validates each graph at the stage that its form implies: the
 * result may be given to passes. NULL: DL_INPUT. */
dl_module *dl_read_module(dl_arena *parent, const char *text, size_t n, const char *name,
                          dl_error *err);
#endif
