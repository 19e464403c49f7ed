/* Messages between a run's ranks in addition to a step's own collectives: that they begin with the
 * same state, that one was asked to stop, and a norm's running statistics. With one rank there are
 * none. */
#include <stdio.h>
#include <string.h>

#include "ir/base/hash.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/train/train_parts.h"

bool dlr_run_leads(const dlr_train_options *o) { return o->ranks.rank == 0; }

/* ---- the same on all ---- */

/* A hash of all parameters that the ranks have whole, in row-major order. */
static uint64_t hash_weights(const dlr_run *r) {
    const dl_plan *plan = dlr_exec_plan(r->exec);
    float piece[1 << 12];
    uint64_t h = 0;
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        dlr_view view = {.type = &v->type, .offset = v->offset};
        int64_t all = dl_type_count(&v->type), most = sizeof piece / sizeof *piece;
        for (dlr_range g = {0}; v->role == DL_VAR_PARAM && !dl_plan_piece(v) && g.first < all;
             g.first += g.n) {
            g.n = all - g.first < most ? all - g.first : most;
            dlr_state_read_range(r->exec, view, g, DL_F32, piece);
            h = dl_hash(piece, sizeof *piece * (size_t)g.n, h);
        }
    }
    return h;
}

bool dlr_run_check_ranks(dlr_run *r, dl_error *err) {
    dlr_comm *comm = r->o->ranks.comm;
    return !comm ||
           (dlr_exchange_agree(dlr_exec_plan(r->exec), dlr_exec_ranks(r->exec), err) &&
            dlr_comm_same(comm, 0, (uint64_t)r->at.iteration, "the step that the run goes on from",
                          err) &&
            dlr_comm_same(comm, 0, hash_weights(r), "the weights that the run begins with", err));
}

bool dlr_run_check_replicas(dlr_run *r, dl_error *err) {
    const dlr_run_ranks *ranks = &r->o->ranks;
    if (!ranks->comm || !ranks->check_every || r->at.iteration % ranks->check_every) return true;
    char what[64];
    snprintf(what, sizeof what, "the weights after step %lld", (long long)r->at.iteration);
    return dlr_comm_same(ranks->comm, 0, hash_weights(r), what, err);
}

/* ---- asked to stop ---- */

int64_t dlr_run_start_largest(dlr_comm *comm, int32_t flags[2], const char *what) {
    return dlr_comm_start(comm, &(dlr_collective){.kind = DLR_ALL_REDUCE_MAX,
                                                  .type = DL_I32,
                                                  .outer = 1,
                                                  .count = 1,
                                                  .from = &flags[0],
                                                  .to = &flags[1],
                                                  .what = what});
}

/* The flag is reduced over the ranks while the next step runs: no step waits for it, and all ranks
 * see it after the same step. */
bool dlr_run_ask(dlr_run *r, dl_error *err) {
    dlr_comm *comm = r->o->ranks.comm;
    if (!comm) {
        r->asked = dl_console_stop_requested(r->o->console);
        return true;
    }
    if (r->asking && !dlr_comm_wait(comm, r->ticket, err)) return false;
    if (r->asking) r->asked = r->flags[1];
    r->flags[0] = dl_console_stop_requested(r->o->console);
    r->asking = true;
    r->ticket = dlr_run_start_largest(comm, r->flags, "all_reduce of signals at a step's end");
    return true;
}

bool dlr_run_end_asking(dlr_run *r, dl_error *err) {
    bool asking = r->asking;
    r->asking = false;
    return !asking || dlr_comm_wait(r->o->ranks.comm, r->ticket, err);
}

bool dlr_run_meet(const dlr_run *r, dl_error *err) {
    return !r->o->ranks.comm || dlr_comm_barrier(r->o->ranks.comm, err);
}

/* ---- buffers ---- */

/* Running statistics follow each rank's own samples; rank 0's are used, as in PyTorch's DDP. */
bool dlr_run_share_buffers(const dlr_run *r, dl_error *err) {
    const dlr_run_ranks *ranks = &r->o->ranks;
    if (!ranks->comm || ranks->own_buffers) return true;
    dl_arena *arena = dl_arena_new(r->arena);
    dlr_tensors buffers = dlr_tensors_of_buffers(arena, r->exec);
    bool ok = true;
    for (int i = 0; ok && i < buffers.n; i++) {
        const dlr_view v = buffers.views[i];
        void *at = dlr_exec_host(r->exec, v, DLR_UPDATE);
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
