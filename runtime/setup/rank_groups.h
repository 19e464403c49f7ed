/* The process groups of a run: the groups of ranks that a plan's collectives name (ir/ranks.h). */
#ifndef DL_RANK_GROUPS_H
#define DL_RANK_GROUPS_H
#include "ir/ranks.h"
#include "runtime/comm/exchange.h"

/* Creates the groups to which `rank` belongs, in the communicator of its world. A collective call:
 * all ranks make it. Errors: those of dlr_comm_group. */
bool dl_groups_make(dl_arena *arena, dlr_comm *comm, const dl_ranks *ranks, int rank,
                    dlr_group groups[DL_NRANK_GROUPS], dl_error *err);
#endif
