/* Many ranks in one process: the graph of each by the interpreter, node by node, and the
 * collectives between them in double precision. What a job of many ranks computes is told beside
 * what one rank computes, without a network; and that no rank waits for another for ever. */
#ifndef DL_LOCKSTEP_H
#define DL_LOCKSTEP_H
#include "ir/interp/interp.h"
#include "ir/ranks.h"

/* Runs graph[r] on in[r], for the ranks r of the whole world, until each has come to its end: all
 * graphs are of one step, and each run's variables hold what the rank has. Updates are not applied.
 * *collectives: how many were made together, each counted once a group; may be NULL. Errors:
 * DL_INPUT, naming the ranks: a collective that its members do not meet in the same order, or that
 * differs in op, group, type or pieces; and those of dl_interp_node. */
bool dl_lockstep_run(const dl_ranks *ranks, const dl_graph *const *graph, dl_interp *const *in,
                     int64_t *collectives, dl_error *err);
/* Copies a rank's piece out of a whole tensor of this variable (row-major), or into it. */
void dl_lockstep_cut(const dl_var *v, const double *whole, double *piece);
void dl_lockstep_join(const dl_var *v, const double *piece, double *whole);
#endif
