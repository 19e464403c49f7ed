/* All_reduces that MPI makes itself (DLR_SUMS_MPI): a lane with one chunk, whose one message is
 * MPI's nonblocking sum. */
#include <limits.h>

#include "runtime/comm/engine.h"

bool dlr_mpi_sum_phase(dlr_engine *e, const dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    if (k->phase) return false;
    int failed =
        e->mpi->sum(c->from, c->to, (int)c->count, c->type == DL_F64,
                    dlr_id(DLR_DATA, false, (int)(l - e->lane), (int)(k - l->chunk), MPI_ITSELF));
    if (failed) {
        char text[200];
        e->mpi->error_text(failed, text, sizeof text);
        dlr_engine_fail(e, "MPI does not start %s: %s", l->op->what, text);
    }
    k->pending++;
    return true;
}

/* One call takes `int` elements; more of them than that are summed as without MPI. MPI has no
 * bf16, and rounds f16 after each addition. */
bool dlr_sum_by_mpi(const dlr_comm *comm, const dlr_members *group, const dlr_collective *c) {
    if (comm->sums != DLR_SUMS_MPI || c->kind != DLR_ALL_REDUCE || c->count > INT_MAX ||
        (c->type != DL_F32 && c->type != DL_F64) || group->n < comm->world.size)
        return false;
    for (int m = 0; m < group->n; m++)
        if (group->ranks[m] != m) return false; /* the world's communicator has this order */
    return true;
}
