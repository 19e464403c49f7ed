#include "runtime/train/checkpointer.h"

#include "ir/base/clock.h"
#include "ir/base/dirs.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/log.h"

/* One checkpoint that is being written, in an arena of its own, which the loop does not change. */
struct dlr_saving {
    dl_arena *arena;
    const char *dir; /* of checkpoints */
    const dlr_sinks *sinks;
    dlr_tensors *
        tensors; /* of the model, the optimiser and the loss scaler; or of each of a rank's files */
    dlr_checkpoint_part *parts;
    dlr_checkpoint_content content;
    dlr_st_written *written;    /* of this rank's files, */
    dlr_checkpoint_file *files; /* and of all ranks' */
    const dlr_shards *shards;   /* NULL: of the one rank that writes */
    bool torch;                 /* also for PyTorch's programs: */
    dlr_torch_gathered gathered;
};

/* ---- what is kept ---- */

/* Whatever is not finite in a checkpoint would be there for ever. */
static void put_part(dlr_saving *s, const char *name, dlr_tensors tensors,
                     const dlr_st_meta *boxes) {
    int n = s->content.n_parts++;
    s->tensors[n] = tensors;
    s->parts[n] = (dlr_checkpoint_part){name, dlr_tensors_content(&s->tensors[n])};
    s->parts[n].content.finite = true;
    if (boxes && boxes->key)
        s->parts[n].content.metadata = boxes, s->parts[n].content.n_metadata = 1;
}

/* Tensors that ranks hold in pieces are made whole, in which all take part: those of the model,
 * then of the optimiser. */
static bool join_gathering(dlr_checkpointer *c, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors model = dlr_tensors_of_model(arena, c->exec),
                optimizer = dlr_tensors_of_optimizer(arena, c->exec),
                average = dlr_tensors_of_average(arena, c->exec);
    bool ok = dlr_tensors_help_gather(&model, err) && dlr_tensors_help_gather(&optimizer, err) &&
              dlr_tensors_help_gather(&average, err);
    dl_arena_free(arena);
    return ok;
}

/* Gathers the whole checkpoint, where rank 0 writes all. */
static bool gather_whole(dlr_exec *exec, dlr_saving *s, const dlr_torch_run *torch, dl_error *err) {
    dlr_tensors scaler = dlr_tensors_of_scaler(s->arena, exec);
    put_part(s, "model", dlr_tensors_of_model(s->arena, exec), NULL);
    put_part(s, "optimizer", dlr_tensors_of_optimizer(s->arena, exec), NULL);
    dlr_tensors average = dlr_tensors_of_average(s->arena, exec);
    if (average.n) put_part(s, "ema", average, NULL);
    if (scaler.n) put_part(s, "scaler", scaler, NULL);
    s->torch = torch;
    if (!dlr_tensors_gather(s->arena, &s->tensors[0], err) ||
        !dlr_tensors_gather(s->arena, &s->tensors[1], err) ||
        (average.n && !dlr_tensors_gather(s->arena, &s->tensors[2], err)))
        return false;
    if (!s->torch) return true;
    if (!dlr_torch_run_gather(s->arena, exec, torch, &s->gathered, err)) return false;
    for (int i = 0; i < s->content.n_parts; i++)
        dlr_tensors_borrow(&s->tensors[i], &s->gathered.tensors);
    return true;
}

/* Gathers this rank's part, of the pieces that it holds, where each rank writes its own. */
static void gather_own(dlr_saving *s) {
    for (int i = 0; i < s->shards->n_own; i++) {
        const dlr_shard *own = &s->shards->own[i];
        put_part(s, own->name, own->tensors, &own->boxes);
    }
    s->files = DL_NEWS(s->arena, dlr_checkpoint_file, s->shards->n_files);
}

static dlr_saving *gather(dlr_checkpointer *c, const dlr_checkpoint_request *request,
                          dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_saving *s = DL_NEW(arena, dlr_saving);
    *s = (dlr_saving){.arena = arena, .dir = c->dir, .sinks = c->sinks, .shards = c->shards};
    int n = s->shards ? s->shards->n_own : DLR_SHARD_PARTS;
    s->tensors = DL_NEWS(arena, dlr_tensors, n + 1),
    s->parts = DL_NEWS(arena, dlr_checkpoint_part, n + 1);
    s->written = DL_NEWS(arena, dlr_st_written, n + 1);
    s->content = (dlr_checkpoint_content){
        .parts = s->parts, .state = *request->at, .is_best = request->is_best, .keep = c->o->keep};
    int64_t *steps = DL_NEWS(arena, int64_t, request->best->n + 1);
    for (int i = 0; i < request->best->n; i++) steps[i] = request->best->list[i].step;
    s->content.keep_steps = steps, s->content.n_keep_steps = request->best->n;
    dlr_state_list values = {0};
    if (request->put_values) request->put_values(request->run, arena, &values);
    s->content.state.values = values.at, s->content.state.n_values = values.n;
    if (s->shards) {
        gather_own(s);
        return s;
    }
    if (gather_whole(c->exec, s, request->torch, err)) return s;
    dl_arena_free(arena);
    return NULL;
}

/* Copies the tensors, which from here on are written from the copy. */
static bool copy(dlr_checkpointer *c, dlr_saving *s, dl_error *err) {
    if (!dlr_snapshot_take(&c->snapshot, err)) return false;
    for (int i = 0; i < s->content.n_parts; i++)
        dlr_tensors_borrow_snapshot(&c->snapshot, &s->tensors[i]);
    if (s->torch) dlr_tensors_borrow_snapshot(&c->snapshot, &s->gathered.tensors);
    return true;
}

/* ---- into files ---- */

/* PyTorch's go before ours: a run that is killed between the two does the epoch again and writes
 * the same. */
static bool write_torch(const dlr_saving *s, dl_error *err) {
    const char *last = dl_format(s->arena, "%s/ckpt.tar", s->dir),
               *best = dl_format(s->arena, "%s/ckpt_best.tar", s->dir);
    return dl_make_dirs(s->dir, 0777, err) && dlr_torch_run_write(last, &s->gathered, err) &&
           (!s->content.is_best || dlr_torch_run_write(best, &s->gathered, err));
}

static bool explain(const dlr_saving *s, const dl_error *fault, dl_error *err) {
    if (fault->code != DL_NUMERIC) return dl_fail(err, fault->code, "%s", fault->message);
    const dlr_state *at = &s->content.state; /* a run that cannot go on is not worth keeping */
    return dl_fail(err, DL_NUMERIC,
                   "%s after step %lld, epoch %lld: stopped; nothing was saved of this step, and "
                   "checkpoints stay "
                   "as they were. A lower start_lr may help; DLR_DEBUG=nan stops at the op that "
                   "makes such a value",
                   fault->message, (long long)at->iteration,
                   (long long)at->epoch + (at->position > 0));
}

/* All of a checkpoint, or this rank's part of it. Points come first: a resumed run drops those
 * after its checkpoint and writes them again. */
static bool write_all(void *context, dl_error *err) {
    dlr_saving *s = context;
    dl_error fault = {0};
    bool ok = dlr_sinks_flush(s->sinks, &fault) && (!s->torch || write_torch(s, &fault)) &&
              (s->shards ? dlr_checkpoint_write(s->dir, &s->content, s->written, &fault)
                         : dlr_checkpoint_save(s->dir, &s->content, &fault));
    return ok || explain(s, &fault, err);
}

static bool commit(void *context, dl_error *err) {
    const dlr_saving *s = context;
    return dlr_checkpoint_commit(s->dir, &s->content, s->files, s->shards->n_files,
                                 s->shards->index, err);
}

/* ---- the one under way ---- */

bool dlr_checkpointer_open(dlr_checkpointer *s, dl_error *err) {
    dl_error fault = {0};
    if (s->o->sharded) {
        s->shards = dlr_shards_plan(s->arena, dlr_exec_plan(s->exec), dlr_exec_ranks(s->exec), err);
        if (!s->shards) return false;
        for (int i = 0; i < s->shards->n_own; i++) s->shards->own[i].tensors.exec = s->exec;
    }
    if (!s->o->async || !(s->shards || dlr_is_rank0(s->ranks))) return true;
    if (!dlr_snapshot_open(&s->snapshot, s->exec, s->shards, &fault))
        return dl_fail(
            err, fault.code,
            "no room for the copy that checkpoints are written from while training goes on "
            "(--async_checkpoints=false does without): %s",
            fault.message);
    s->thread = dlr_background_open(err);
    return s->thread != NULL;
}

static void drop(dlr_checkpointer *s) {
    dl_arena_free(s->saving->arena);
    s->saving = NULL, s->written = s->committing = false, s->fault = (dl_error){0};
}

/* Begins a job, or does it where there is no thread. */
static bool start_job(dlr_checkpointer *s, dlr_job *job, dl_error *err) {
    if (s->thread) {
        dlr_background_start(s->thread, job, s->saving);
        return true;
    }
    double began = dl_clock_seconds();
    bool ok = job(s->saving, err);
    s->wrote += dl_clock_seconds() - began;
    return ok;
}

/* Waits for the thread's job. */
static bool end_job(dlr_checkpointer *s, dl_error *err) {
    double began = dl_clock_seconds(), took;
    if (!s->thread) return true;
    bool ok = dlr_background_wait(s->thread, &took, err);
    s->waited += dl_clock_seconds() - began;
    s->wrote += took;
    dlr_log_debug("checkpoint of step %lld: %s after %.3f sec",
                  (long long)s->saving->content.state.iteration, ok ? "written" : "not written",
                  took);
    return ok;
}

/* Every rank writes until its part is durable, or it cannot; when they have heard so of each other,
 * rank 0 makes it the checkpoint, or all fail. */
static bool end_parts(dlr_checkpointer *s, dl_error *err) {
    if (!s->written) end_job(s, &s->fault);
    s->written = true;
    bool ok = dlr_ranks_share_fault(s->ranks, &s->fault, err);
    if (ok && s->fault.code)
        ok = dl_fail(err, s->fault.code, "%s", s->fault.message); /* all end alike */
    ok = ok && dlr_checkpointer_gather_written(s, s->saving->written, s->saving->files, err);
    s->committing = ok && dlr_is_rank0(s->ranks);
    ok = ok && (!s->committing || start_job(s, commit, err));
    if (!ok || !s->committing) drop(s);
    return ok;
}

bool dlr_checkpointer_wait(dlr_checkpointer *s, dl_error *err) {
    bool all;
    if (!s->saving) return true;
    if (s->shards && !s->committing) {
        if (!dlr_checkpointer_hear_written(s, &all, err) || !end_parts(s, err)) return false;
        if (!s->saving) return true;
    }
    bool ok = end_job(s, err);
    drop(s);
    return ok;
}

bool dlr_checkpointer_check(dlr_checkpointer *s, dl_error *err) {
    bool all;
    if (!s->saving) return true;
    if (!s->shards || s->committing)
        return dlr_background_busy(s->thread) || dlr_checkpointer_wait(s, err);
    if (!s->written && !dlr_background_busy(s->thread)) end_job(s, &s->fault), s->written = true;
    if (!dlr_checkpointer_hear_written(s, &all, err)) return false;
    if (all) return end_parts(s, err);
    dlr_checkpointer_ask_written(s);
    return true;
}

void dlr_checkpointer_close(dlr_checkpointer *s) {
    dl_error fault = {0};
    if (s->saving) {
        bool part = s->shards && !s->committing;
        if (part)
            dlr_log_warning(
                "the checkpoint of step %lld is given up: not all ranks have written it",
                (long long)s->saving->content.state.iteration);
        if (!s->written || s->committing) end_job(s, &fault);
        if (s->fault.code) fault = s->fault;
        if (fault.code) dlr_log(DLR_ERROR, "%s", fault.message);
        drop(s);
    }
    dlr_background_close(s->thread);
    dlr_snapshot_close(&s->snapshot);
}

void dlr_checkpointer_log(const dlr_checkpointer *s) {
    if (!s->n) return;
    if (s->thread)
        dlr_log_info("%d checkpoint%s written in %.3f sec; the run waited %.3f for copies in "
                     "memory, %.3f for files",
                     s->n, s->n == 1 ? "" : "s", s->wrote, s->copied, s->waited);
    else
        dlr_log_info("%d checkpoint%s written in %.3f sec, while the run waited", s->n,
                     s->n == 1 ? "" : "s", s->wrote);
}

/* The folder that all ranks write into is there before any of them does. */
static bool begin_parts(dlr_checkpointer *s, int64_t iteration, dl_error *err) {
    return (!dlr_is_rank0(s->ranks) || dlr_checkpoint_begin(s->dir, iteration, err)) &&
           dlr_ranks_barrier(s->ranks, err);
}

bool dlr_checkpointer_save(dlr_checkpointer *s, const dlr_checkpoint_request *request,
                           dl_error *err) {
    if (!s->shards && !dlr_is_rank0(s->ranks)) return join_gathering(s, err);
    if (!dlr_checkpointer_wait(s, err)) return false;
    double began = dl_clock_seconds();
    if (s->shards && !begin_parts(s, request->at->iteration, err)) return false;
    dlr_saving *saving = gather(s, request, err);
    if (!saving) return false;
    s->saving = saving, s->n++;
    bool ok = true;
    if (s->thread) {
        ok = copy(s, saving, err);
        s->copied += dl_clock_seconds() - began;
    }
    if (ok && s->shards && !s->thread) { /* a rank that cannot write reports it to the others */
        start_job(s, write_all, &s->fault), s->written = true;
        return end_parts(s, err) && dlr_checkpointer_wait(s, err);
    }
    ok = ok && start_job(s, write_all, err);
    if (!ok || !s->thread) drop(s);
    return ok;
}
