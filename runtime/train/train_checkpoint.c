/* Writes a run's checkpoints: gathered between two steps, and written while the next steps run. */
#include "ir/base/clock.h"
#include "ir/base/dirs.h"
#include "runtime/formats/log.h"
#include "runtime/train/train_parts.h"

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

static void put_text(dl_arena *arena, dlr_state_list *list, const char *key, const char *text) {
    dl_push(arena, list,
            (dlr_state_value){.key = key, .kind = DLR_STATE_TEXT, .text = text ? text : ""});
}

static void put_int(dl_arena *arena, dlr_state_list *list, const char *key, int64_t value) {
    dl_push(arena, list, (dlr_state_value){.key = key, .kind = DLR_STATE_INT, .integer = value});
}

/* n numbers, to be filled in. */
static double *put_reals(dl_arena *arena, dlr_state_list *list, const char *key, int n) {
    double *reals = DL_NEWS(arena, double, n);
    dl_push(arena, list,
            (dlr_state_value){.key = key, .kind = DLR_STATE_REALS, .reals = reals, .n_reals = n});
    return reals;
}

/* The model's metrics: the count of their batches, then the sums of the epoch; and likewise the
 * newest step's values. */
static void put_metrics(dl_arena *arena, const dlr_averages *a, dlr_state_list *list) {
    double *sums = put_reals(arena, list, "metric_sums", a->n + 1);
    double *last = put_reals(arena, list, "metric_last", a->n + 1);
    sums[0] = last[0] = (double)a->batches;
    for (int i = 0; i < a->n; i++) sums[i + 1] = a->terms[i].sum, last[i + 1] = a->terms[i].last;
}

/* The newest scale; values of the epoch that are left out of its means: of the loss, and of each
 * metric. */
static void put_scaler(dl_arena *arena, const dlr_run *r, dlr_state_list *list) {
    double *numbers = put_reals(arena, list, "scaler", r->trained.n + 2);
    numbers[0] = r->steps.scaler.last, numbers[1] = (double)r->lost;
    for (int i = 0; i < r->trained.n; i++) numbers[i + 2] = (double)r->trained.terms[i].lost;
}

static dlr_state_list values_of(dl_arena *arena, const dlr_run *r, bool scales) {
    dlr_state_list list = {0};
    put_text(arena, &list, "model", dlr_exec_plan(r->exec)->model);
    put_int(arena, &list, "epoch_batches", r->epoch_batches);
    put_int(arena, &list, "batch", r->global_batch);
    *put_reals(arena, &list, "epoch_seconds", 1) = r->steps.seconds;
    *put_reals(arena, &list, "epoch_wait", 1) = r->steps.wait;
    *put_reals(arena, &list, "learning_rate", 1) = r->last_rate;
    put_metrics(arena, &r->trained, &list);
    put_int(arena, &list, "best_epoch", r->best_epoch);
    put_text(arena, &list, "hyperparams", r->o->hyperparams);
    put_text(arena, &list, "graph", r->o->model.graph);
    put_text(arena, &list, "source", r->o->model.source);
    put_text(arena, &list, "data", r->o->model.data);
    put_text(arena, &list, "from", r->from);
    if (r->o->plateau) {
        double *plateau = put_reals(arena, &list, "plateau", 4);
        plateau[0] = r->plateau.best, plateau[1] = (double)r->plateau.bad,
        plateau[2] = r->plateau.rate;
        plateau[3] = r->rates.init; /* which that is a part of */
    }
    if (scales) put_scaler(arena, r, &list);
    return list;
}

/* Tensors that ranks hold in pieces are made whole, in which all take part: those of the model,
 * then of the optimiser. */
static bool join_gathering(dlr_run *r, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors model = dlr_tensors_of_model(arena, r->exec),
                optimizer = dlr_tensors_of_optimizer(arena, r->exec);
    bool ok = dlr_tensors_help_gather(&model, err) && dlr_tensors_help_gather(&optimizer, err);
    dl_arena_free(arena);
    return ok;
}

/* Gathers the whole checkpoint, where rank 0 writes all. */
static bool gather_whole(dlr_run *r, dlr_saving *s, dlr_tensors scaler, dl_error *err) {
    put_part(s, "model", dlr_tensors_of_model(s->arena, r->exec), NULL);
    put_part(s, "optimizer", dlr_tensors_of_optimizer(s->arena, r->exec), NULL);
    if (scaler.n) put_part(s, "scaler", scaler, NULL);
    s->torch = r->o->torch && r->at.position == 0; /* epochs only */
    if (!dlr_tensors_gather(s->arena, &s->tensors[0], err) ||
        !dlr_tensors_gather(s->arena, &s->tensors[1], err))
        return false;
    if (!s->torch) return true;
    if (!dlr_run_gather_torch(r, s->arena, &s->gathered, err)) return false;
    for (int i = 0; i < 2; i++) dlr_tensors_borrow(&s->tensors[i], &s->gathered.tensors);
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

static dlr_saving *gather(dlr_run *r, bool is_best, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_saving *s = DL_NEW(arena, dlr_saving);
    *s = (dlr_saving){.arena = arena,
                      .dir = r->o->dir->checkpoints,
                      .sinks = &r->sinks,
                      .shards = r->saver.shards};
    int n = s->shards ? s->shards->n_own : DLR_SHARD_PARTS;
    s->tensors = DL_NEWS(arena, dlr_tensors, n + 1),
    s->parts = DL_NEWS(arena, dlr_checkpoint_part, n + 1);
    s->written = DL_NEWS(arena, dlr_st_written, n + 1);
    s->content = (dlr_checkpoint_content){
        .parts = s->parts, .state = r->at, .is_best = is_best, .keep = r->o->keep};
    dlr_tensors scaler = dlr_tensors_of_scaler(arena, r->exec);
    dlr_state_list values = values_of(arena, r, scaler.n > 0);
    s->content.state.values = values.at, s->content.state.n_values = values.n;
    if (s->shards) {
        gather_own(s);
        return s;
    }
    if (gather_whole(r, s, scaler, err)) return s;
    dl_arena_free(arena);
    return NULL;
}

/* Copies the tensors, which from here on are written from the copy. */
static bool copy(dlr_run *r, dlr_saving *s, dl_error *err) {
    if (!dlr_snapshot_take(&r->saver.snapshot, err)) return false;
    for (int i = 0; i < s->content.n_parts; i++)
        dlr_tensors_borrow_snapshot(&r->saver.snapshot, &s->tensors[i]);
    if (s->torch) dlr_tensors_borrow_snapshot(&r->saver.snapshot, &s->gathered.tensors);
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

bool dlr_run_open_saver(dlr_run *r, dl_error *err) {
    dlr_saver *s = &r->saver;
    dl_error fault = {0};
    if (r->o->sharded) {
        s->shards = dlr_shards_plan(r->arena, dlr_exec_plan(r->exec), dlr_exec_ranks(r->exec), err);
        if (!s->shards) return false;
        for (int i = 0; i < s->shards->n_own; i++) s->shards->own[i].tensors.exec = r->exec;
    }
    if (!r->o->async || !(s->shards || dlr_run_leads(r->o))) return true;
    if (!dlr_snapshot_open(&s->snapshot, r->exec, s->shards, &fault))
        return dl_fail(
            err, fault.code,
            "no room for the copy that checkpoints are written from while training goes on "
            "(--async_checkpoints=false does without): %s",
            fault.message);
    s->thread = dlr_background_open(err);
    return s->thread != NULL;
}

static void drop(dlr_saver *s) {
    dl_arena_free(s->saving->arena);
    s->saving = NULL, s->written = s->committing = false, s->fault = (dl_error){0};
}

/* Begins a job, or does it where there is no thread. */
static bool start_job(dlr_saver *s, dlr_job *job, dl_error *err) {
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
static bool end_job(dlr_saver *s, dl_error *err) {
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
static bool end_parts(dlr_run *r, dl_error *err) {
    dlr_saver *s = &r->saver;
    if (!s->written) end_job(s, &s->fault);
    s->written = true;
    bool ok = dlr_run_share_fault(r, &s->fault, err);
    if (ok && s->fault.code)
        ok = dl_fail(err, s->fault.code, "%s", s->fault.message); /* all end alike */
    ok = ok && dlr_run_gather_written(r, s->saving->written, s->saving->files, err);
    s->committing = ok && dlr_run_leads(r->o);
    ok = ok && (!s->committing || start_job(s, commit, err));
    if (!ok || !s->committing) drop(s);
    return ok;
}

bool dlr_run_wait_saved(dlr_run *r, dl_error *err) {
    dlr_saver *s = &r->saver;
    bool all;
    if (!s->saving) return true;
    if (s->shards && !s->committing) {
        if (!dlr_run_hear_written(r, &all, err) || !end_parts(r, err)) return false;
        if (!s->saving) return true;
    }
    bool ok = end_job(s, err);
    drop(s);
    return ok;
}

bool dlr_run_check_saved(dlr_run *r, dl_error *err) {
    dlr_saver *s = &r->saver;
    bool all;
    if (!s->saving) return true;
    if (!s->shards || s->committing)
        return dlr_background_busy(s->thread) || dlr_run_wait_saved(r, err);
    if (!s->written && !dlr_background_busy(s->thread)) end_job(s, &s->fault), s->written = true;
    if (!dlr_run_hear_written(r, &all, err)) return false;
    if (all) return end_parts(r, err);
    dlr_run_ask_written(r);
    return true;
}

void dlr_run_close_saver(dlr_run *r) {
    dlr_saver *s = &r->saver;
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

void dlr_run_log_saver(const dlr_run *r) {
    const dlr_saver *s = &r->saver;
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
static bool begin_parts(dlr_run *r, dl_error *err) {
    return (!dlr_run_leads(r->o) ||
            dlr_checkpoint_begin(r->o->dir->checkpoints, r->at.iteration, err)) &&
           dlr_run_meet(r, err);
}

bool dlr_run_save(dlr_run *r, bool is_best, dl_error *err) {
    dlr_saver *s = &r->saver;
    if (!s->shards && !dlr_run_leads(r->o)) return join_gathering(r, err);
    if (!dlr_run_wait_saved(r, err)) return false;
    double began = dl_clock_seconds();
    if (s->shards && !begin_parts(r, err)) return false;
    dlr_saving *saving = gather(r, is_best, err);
    if (!saving) return false;
    s->saving = saving, s->n++;
    bool ok = true;
    if (s->thread) {
        ok = copy(r, saving, err);
        s->copied += dl_clock_seconds() - began;
    }
    if (ok && s->shards && !s->thread) { /* a rank that cannot write reports it to the others */
        start_job(s, write_all, &s->fault), s->written = true;
        return end_parts(r, err) && dlr_run_wait_saved(r, err);
    }
    ok = ok && start_job(s, write_all, err);
    if (!ok || !s->thread) drop(s);
    return ok;
}
