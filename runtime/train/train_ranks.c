#include "runtime/train/train_ranks.h"

#include <stdio.h>
#include <string.h>

#include "ir/base/hash.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"

/* ---- the same on all ---- */

/* A hash of all parameters that the ranks have whole, in row-major order. */
static uint64_t hash_weights(dlr_exec *exec) {
    const dl_plan *plan = dlr_exec_plan(exec);
    float piece[1 << 12];
    uint64_t h = 0;
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        dlr_view view = {.type = &v->type, .offset = v->offset};
        int64_t all = dl_type_count(&v->type), most = sizeof piece / sizeof *piece;
        for (dlr_range g = {0}; v->role == DL_VAR_PARAM && !dl_plan_piece(v) && g.first < all;
             g.first += g.n) {
            g.n = all - g.first < most ? all - g.first : most;
            dlr_state_read_range(exec, view, g, DL_F32, piece);
            h = dl_hash(piece, sizeof *piece * (size_t)g.n, h);
        }
    }
    return h;
}

bool dlr_ranks_check_begin(const dlr_run_ranks *ranks, dlr_exec *exec, int64_t iteration,
                           dl_error *err) {
    dlr_comm *comm = ranks->comm;
    return !comm || (dlr_exchange_agree(dlr_exec_plan(exec), dlr_exec_ranks(exec), err) &&
                     dlr_comm_same(comm, 0, (uint64_t)iteration,
                                   "the step that the run goes on from", err) &&
                     dlr_comm_same(comm, 0, hash_weights(exec),
                                   "the weights that the run begins with", err));
}

bool dlr_ranks_check_replicas(const dlr_run_ranks *ranks, dlr_exec *exec, int64_t iteration,
                              dl_error *err) {
    if (!ranks->comm || !ranks->check_every || iteration % ranks->check_every) return true;
    char what[64];
    snprintf(what, sizeof what, "the weights after step %lld", (long long)iteration);
    return dlr_comm_same(ranks->comm, 0, hash_weights(exec), what, err);
}

bool dlr_ranks_barrier(const dlr_run_ranks *ranks, dl_error *err) {
    return !ranks->comm || dlr_comm_barrier(ranks->comm, err);
}

/* ---- flags and faults ---- */

int64_t dlr_ranks_start_largest(dlr_comm *comm, int32_t flags[2], const char *what) {
    return dlr_comm_start(comm, &(dlr_collective){.kind = DLR_ALL_REDUCE_MAX,
                                                  .type = DL_I32,
                                                  .outer = 1,
                                                  .count = 1,
                                                  .from = &flags[0],
                                                  .to = &flags[1],
                                                  .what = what});
}

bool dlr_ranks_share_fault(const dlr_run_ranks *ranks, dl_error *fault, dl_error *err) {
    dlr_comm *comm = ranks->comm;
    dlr_world world = comm ? dlr_comm_world(comm) : (dlr_world){.size = 1};
    int first = fault->code ? world.size - world.rank : 0, all;
    _Static_assert(sizeof *fault % sizeof(int32_t) == 0, "it goes round as whole numbers");
    if (!comm) return true;
    if (!dlr_comm_agree(comm, first, &all, err)) return false;
    return all == 0 ||
           dlr_comm_all(comm,
                        &(dlr_collective){.kind = DLR_BROADCAST,
                                          .type = DL_I32,
                                          .outer = 1,
                                          .count = sizeof *fault / sizeof(int32_t),
                                          .root = world.size - all,
                                          .from = fault,
                                          .to = fault,
                                          .what = "broadcast of why a checkpoint is not written"},
                        err);
}

/* ---- reading a checkpoint ---- */

static bool same(void *context, uint64_t number, const char *what, dl_error *err) {
    return dlr_comm_same(context, 0, number, what, err);
}

static bool most(void *context, int64_t number, int64_t *largest, dl_error *err) {
    return dlr_comm_all(
        context,
        &(dlr_collective){.kind = DLR_ALL_REDUCE_MAX,
                          .type = DL_I64,
                          .outer = 1,
                          .count = 1,
                          .from = &number,
                          .to = largest,
                          .what = "all_reduce of what verifying a checkpoint has found"},
        err);
}

const dlr_checkpoint_readers *dlr_ranks_readers(const dlr_run_ranks *ranks, dl_arena *arena) {
    dlr_comm *comm = ranks->comm;
    if (!comm) return NULL;
    dlr_world world = dlr_comm_world(comm);
    dlr_checkpoint_readers *readers = DL_NEW(arena, dlr_checkpoint_readers);
    *readers = (dlr_checkpoint_readers){world.rank, world.size, same, most, comm};
    return readers;
}

/* ---- buffers ---- */

/* Running statistics follow each rank's own samples; rank 0's are used, as in PyTorch's DDP. */
bool dlr_ranks_share_buffers(const dlr_run_ranks *ranks, dlr_exec *exec, dl_error *err) {
    if (!ranks->comm || ranks->own_buffers) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors buffers = dlr_tensors_of_buffers(arena, exec);
    bool ok = true;
    for (int i = 0; ok && i < buffers.n; i++) {
        const dlr_view v = buffers.views[i];
        void *at = dlr_exec_host(exec, v, DLR_UPDATE);
        int64_t bytes = dl_type_bytes(v.type);
        ok = dlr_comm_all(
            ranks->comm,
            &(dlr_collective){.kind = DLR_BROADCAST,
                              .type = v.type->dtype,
                              .outer = 1,
                              .count = bytes / dl_dtype_bytes(v.type->dtype),
                              .from = at,
                              .to = at,
                              .what = dl_format(arena, "broadcast of %s", buffers.list[i].name)},
            err);
    }
    dl_arena_free(arena);
    return ok;
}
