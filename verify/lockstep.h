/* Simulates several ranks in one process: the interpreter runs each rank's graph node by node, and
 * collectives run between them in double precision. Without a network it compares a job of several
 * ranks with one rank, and shows that ranks do not wait for each other forever. */
#ifndef DL_LOCKSTEP_H
#define DL_LOCKSTEP_H
#include "ir/interp/interp.h"
#include "ir/ranks.h"

/* Runs graph[r] on in[r] for all ranks r, until each has reached its end. All graphs are of one
 * step, and each run's variables hold that rank's values. Updates are not applied. *collectives:
 * the number of collectives, each counted once a group; may be NULL. Errors: DL_INPUT naming the
 * ranks: members reach collectives in different orders, or with another op, group, type or shard;
 * and the errors of dl_interp_node. */
bool dl_lockstep_run(const dl_ranks *ranks, const dl_graph *const *graph, dl_interp *const *in,
                     int64_t *collectives, dl_error *err);
/* Copies a rank's shard of this variable out of a whole tensor (row-major), or into it. */
void dl_lockstep_cut(const dl_var *v, const double *whole, double *piece);
void dl_lockstep_join(const dl_var *v, const double *piece, double *whole);
#endif
