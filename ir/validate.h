/* Is the IR legal at this stage? Runs after every pass in tests and debug builds, and on everything parsed.
 */
#ifndef DL_VALIDATE_H
#define DL_VALIDATE_H
#include "ir/graph.h"

typedef enum {
    DL_STAGE_TENSOR,  /* any op; types re-inferred; topological order; results and updates typed as their
                         variables */
    DL_STAGE_FUSED,   /* only `fused` nodes; each kernel legal and matching its operands' types and layouts */
    DL_STAGE_PLANNED, /* every value has an offset; nothing overlaps what is still to be read; peak =
                         arena_bytes */
} dl_stage;

/* False: err (DL_INTERNAL) names the graph, the node's text and what is wrong. */
bool dl_validate(const dl_graph *g, dl_stage stage, dl_error *err);
#endif
