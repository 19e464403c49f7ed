/* Messages between ranks that write a checkpoint together, or read one. */
#include "runtime/train/train_parts.h"

bool dlr_run_gather_written(const dlr_run *r, const dlr_st_written *own, dlr_checkpoint_file *all,
                            dl_error *err) {
    const dlr_shards *s = r->saver.shards;
    dlr_comm *comm = r->o->ranks.comm;
    enum { NUMBERS = 2 };
    dl_arena *arena = dl_arena_new(NULL);
    int64_t *from = DL_NEWS(arena, int64_t, NUMBERS * s->n_own + 1),
            *to = DL_NEWS(arena, int64_t, NUMBERS * s->n_files + 1),
            *counts = DL_NEWS(arena, int64_t, s->n_ranks);
    for (int i = 0; i < s->n_own; i++)
        from[NUMBERS * i] = (int64_t)own[i].bytes, from[NUMBERS * i + 1] = (int64_t)own[i].checksum;
    for (int i = 0; i < s->n_ranks; i++) counts[i] = NUMBERS * s->counts[i];
    bool ok = !comm || dlr_comm_all(comm,
                                    &(dlr_collective){.kind = DLR_ALL_GATHER,
                                                      .type = DL_I64,
                                                      .outer = 1,
                                                      .counts = counts,
                                                      .from = from,
                                                      .to = to,
                                                      .what = "all_gather of a checkpoint's files"},
                                    err);
    const int64_t *numbers = comm ? to : from;
    for (int i = 0; ok && i < s->n_files; i++)
        all[i] = (dlr_checkpoint_file){s->names[i],
                                       {.bytes = (uint64_t)numbers[NUMBERS * i],
                                        .checksum = (uint64_t)numbers[NUMBERS * i + 1]}};
    dl_arena_free(arena);
    return ok;
}

bool dlr_run_share_fault(const dlr_run *r, dl_error *fault, dl_error *err) {
    dlr_comm *comm = r->o->ranks.comm;
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

/* It goes round while the next step runs, as a signal's flag does. */
void dlr_run_ask_written(dlr_run *r) {
    dlr_saver *s = &r->saver;
    s->flags[0] = s->flags[1] = !s->written;
    s->asking = true;
    if (r->o->ranks.comm)
        s->ticket = dlr_run_start_largest(r->o->ranks.comm, s->flags,
                                          "all_reduce of who still writes a checkpoint");
}

bool dlr_run_hear_written(dlr_run *r, bool *all, dl_error *err) {
    dlr_saver *s = &r->saver;
    bool asking = s->asking;
    s->asking = *all = false;
    if (!asking) return true;
    if (r->o->ranks.comm && !dlr_comm_wait(r->o->ranks.comm, s->ticket, err)) return false;
    *all = !s->flags[1];
    return true;
}

/* ---- reading ---- */

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

const dlr_checkpoint_readers *dlr_run_readers(const dlr_run *r) {
    dlr_comm *comm = r->o->ranks.comm;
    if (!comm) return NULL;
    dlr_world world = dlr_comm_world(comm);
    dlr_checkpoint_readers *readers = DL_NEW(r->arena, dlr_checkpoint_readers);
    *readers = (dlr_checkpoint_readers){world.rank, world.size, same, most, comm};
    return readers;
}
