#include "programs/groups.h"

bool dl_groups_make(dl_arena *arena, dlr_comm *comm, const dl_ranks *ranks, int rank,
                    dlr_group groups[DL_NRANK_GROUPS], dl_error *err) {
    for (int i = 0; i < DL_NRANK_GROUPS; i++) {
        int n = dl_ranks_count(ranks, dl_rank_groups[i]), *members = DL_NEWS(arena, int, n);
        dlr_group *g = &groups[i];
        *g = (dlr_group){.name = dl_rank_groups[i], .size = n};
        dl_ranks_members(ranks, g->name, rank, members);
        while (members[g->rank] != rank) g->rank++;
        g->number = dlr_comm_group(comm, n, members, err);
        if (g->number < 0) return false;
    }
    return true;
}
