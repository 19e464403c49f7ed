/* Who works with whom in a run of several ranks: the groups that a plan's collectives name. */
#ifndef DL_RANK_GROUPS_H
#define DL_RANK_GROUPS_H
#include "ir/ranks.h"
#include "runtime/comm/exchange.h"

/* Makes the groups that `rank` is in, in the comm of its world; all ranks call it. Errors: those of
 * dlr_comm_group. */
bool dl_groups_make(dl_arena *arena, dlr_comm *comm, const dl_ranks *ranks, int rank,
                    dlr_group groups[DL_NRANK_GROUPS], dl_error *err);
#endif
