/* Means of the weights. Private to the pass optimizer. */
#ifndef DL_AVERAGE_H
#define DL_AVERAGE_H
#include "passes/optim/optimizer.h"

/* Adds the update of a parameter's mean; next: the parameter's next value, whole, as it is
 * stored. */
void dl_average_update(dl_optimization *o, const dl_trained *t, dl_value *next);
/* Makes the graph "eval" read the means. False: nothing was to do. */
bool dl_average_read(dl_graph *g, const dl_pass_ctx *ctx);
#endif
