/* Messages between ranks that write a checkpoint together. */
#include "runtime/train/checkpointer.h"

bool dlr_checkpointer_gather_written(const dlr_checkpointer *c, const dlr_st_written *own,
                                     dlr_checkpoint_file *all, dl_error *err) {
    const dlr_shards *s = c->shards;
    dlr_comm *comm = c->ranks->comm;
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

/* It goes round while the next step runs, as a signal's flag does. */
void dlr_checkpointer_ask_written(dlr_checkpointer *c) {
    c->flags[0] = c->flags[1] = !c->written;
    c->asking = true;
    if (c->ranks->comm)
        c->ticket = dlr_ranks_start_largest(c->ranks->comm, c->flags,
                                            "all_reduce of who still writes a checkpoint");
}

bool dlr_checkpointer_hear_written(dlr_checkpointer *c, bool *all, dl_error *err) {
    bool asking = c->asking;
    c->asking = *all = false;
    if (!asking) return true;
    if (c->ranks->comm && !dlr_comm_wait(c->ranks->comm, c->ticket, err)) return false;
    *all = !c->flags[1];
    return true;
}
