/* The keys `optimizers` and `optimize_order` of a configuration: optimisers of the losses that a
 * model states by `optimize NAME`. Keys of all optimisers are the defaults of each. */
#ifndef DL_COMPILER_OBJECTIVES_H
#define DL_COMPILER_OBJECTIVES_H
#include "frontends/yaml/config.h"
#include "ir/graph.h"
#include "ir/step_options.h"

/* The options of each objective of the graph "train", *n of them, where `step` are those of the
 * step; in the arena. Errors, located: DL_INPUT or DL_USAGE for a name that the model lacks, an
 * unknown key, a value that the key does not allow, and for keys that several optimisers exclude.
 */
bool dl_objectives_of(dl_arena *arena, const dl_config *c, const dl_graph *train,
                      const dl_step_options *step, const dl_objective_options **all, int *n,
                      dl_error *err);
/* The value of the plan's hyperparameter "optimizer.OBJECTIVE.NUMBER"; false: the name is no such
 * one. */
bool dl_objective_hyper(const dl_config *c, const char *name, double *value);
/* A hash of all that shapes a plan. */
uint64_t dl_objectives_hash(const dl_objective_options *all, int n, uint64_t h);
#endif
