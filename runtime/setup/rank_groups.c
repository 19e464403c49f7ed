#include "runtime/setup/rank_groups.h"

static int *places_of(dl_arena *arena, const dl_ranks *ranks, const char *group, int n) {
    int world = dl_ranks_world(ranks), *places = DL_NEWS(arena, int, world),
        *members = DL_NEWS(arena, int, n);
    for (int r = 0; r < world; r++) {
        dl_ranks_members(ranks, group, r, members);
        while (members[places[r]] != r) places[r]++;
    }
    return places;
}

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
        g->places = places_of(arena, ranks, g->name, n);
    }
    return true;
}
