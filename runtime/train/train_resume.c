/* Where a run begins: from a checkpoint of its own, from another run's, or from PyTorch's. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/formats/log.h"
#include "runtime/train/train_parts.h"

static double real(const dlr_checkpoint *c, const char *key) {
    const dlr_state_value *v = dlr_checkpoint_value(c, key);
    return v && v->kind == DLR_STATE_REALS && v->n_reals == 1 ? v->reals[0] : 0;
}

/* The sums of the epoch's metrics so far. Of other metrics than now: averages begin here. */
static void restore_sums(dlr_averages *a, const dlr_checkpoint *c) {
    const dlr_state_value *v = dlr_checkpoint_value(c, "metric_sums");
    if (!v || v->kind != DLR_STATE_REALS || v->n_reals != a->n + 1) return;
    a->batches = (int64_t)v->reals[0];
    for (int i = 0; i < a->n; i++) a->terms[i].sum = v->reals[i + 1];
    v = dlr_checkpoint_value(c, "metric_last");
    if (!v || v->kind != DLR_STATE_REALS || v->n_reals != a->n + 1) return;
    for (int i = 0; i < a->n; i++) a->terms[i].last = v->reals[i + 1];
}

/* Restores the plateau of a run that had one; otherwise it begins now. If the first rate has
 * changed, it is lowered by the same factor as the earlier one. */
static void restore_plateau(dlr_plateau *p, double init, const dlr_checkpoint *c) {
    const dlr_state_value *v = dlr_checkpoint_value(c, "plateau");
    if (!v || v->kind != DLR_STATE_REALS || (v->n_reals != 3 && v->n_reals != 4)) return;
    *p = (dlr_plateau){.best = v->reals[0], .bad = (int64_t)v->reals[1], .rate = v->reals[2]};
    double then = v->n_reals == 4 ? v->reals[3] : init;
    if (then != init) p->rate = then > 0 ? p->rate / then * init : init;
}

static void restore_scaler_numbers(dlr_run *r, const dlr_checkpoint *c) {
    const dlr_state_value *v = dlr_checkpoint_value(c, "scaler");
    if (!v || v->kind != DLR_STATE_REALS || v->n_reals != r->trained.n + 2) return;
    r->steps.scaler.last = v->reals[0], r->lost = (int64_t)v->reals[1];
    for (int i = 0; i < r->trained.n; i++) r->trained.terms[i].lost = (int64_t)v->reals[i + 2];
}

/* The loss scaler's state, which either side may lack: another precision is a choice. */
static bool load_scaler(dlr_run *r, const dlr_checkpoint *c, dl_error *err) {
    dlr_tensors scaler = dlr_tensors_of_scaler(r->arena, r->exec);
    dl_error none = {0};
    const dlr_st_file *file = dlr_checkpoint_part_file(c, "scaler", &none);
    if (file && scaler.n > 0) {
        restore_scaler_numbers(r, c);
        return dlr_tensors_load(&scaler, file, err);
    }
    if (scaler.n > 0)
        dlr_log_info("the checkpoint has no loss scaler: it begins at %g", r->o->loss_scale);
    else if (file)
        dlr_log_info("the checkpoint's loss scaler is dropped: nothing is scaled now");
    dlr_scaler_start(r->exec, r->o->loss_scale);
    return true;
}

/* The means of an epoch so far as sums over so many batches. */
static void weigh(dlr_run *r, int64_t batches) {
    dlr_averages *a = &r->trained;
    int64_t batches_then = r->at.position - r->lost;
    r->at.epoch_loss *= batches_then > 0 ? (double)batches / (double)batches_then : 0;
    for (int i = 0; i < a->n; i++) {
        bool any = a->batches > a->terms[i].lost && batches > 0;
        a->terms[i].sum = any ? dlr_averages_mean(a, i) * (double)batches : 0;
    }
    for (int i = 0; i < a->n; i++) a->terms[i].lost = 0;
    a->batches = batches, r->lost = 0;
}

/* If the batch size has changed within an epoch, the epoch continues with the first batch that has
 * samples it has not seen. */
static void move_within_epoch(dlr_run *r, const dlr_checkpoint *c) {
    int64_t batch = dlr_checkpoint_integer(c, "batch"),
            all = dlr_checkpoint_integer(c, "epoch_batches"), made = r->at.position;
    if (made == 0 || batch <= 0 || batch == r->global_batch) return;
    int64_t seen = made * batch, now = seen / r->global_batch;
    if (made >= all || now > r->epoch_batches) now = r->epoch_batches; /* validation was left */
    int64_t again = seen - now * r->global_batch;
    weigh(r, now);
    r->at.position = now;
    dlr_log_info("the epoch goes on by batches of %lld samples (%lld in the checkpoint)%s",
                 (long long)r->global_batch, (long long)batch,
                 made < all && again > 0
                     ? dl_format(r->arena, ": %lld samples are seen twice", (long long)again)
                     : "");
}

/* Everything that is another one now, each in the log where the error has no room for all. */
static bool check_same(const dlr_run *r, const dlr_checkpoint *c, const dlr_differences *list,
                       dl_error *err) {
    const char *what = dl_format(
        r->arena,
        "%.150s is of another run (a new one can begin with its weights: --init_weights=%.150s)",
        c->path, c->path);
    if (list->n == 0) return true;
    if (!dlr_differences_fit(list))
        for (int i = 0; i < list->n; i++) dlr_log(DLR_ERROR, "%s", list->at[i]);
    return dlr_differences_fail(list, what, err);
}

static bool load(dlr_run *r, const dlr_checkpoint *c, dl_error *err) {
    dlr_tensors model = dlr_tensors_of_model(r->arena, r->exec);
    dlr_tensors optimizer = dlr_tensors_of_optimizer(r->arena, r->exec);
    const dlr_st_file *a = dlr_checkpoint_part_file(c, "model", err);
    const dlr_st_file *b = a ? dlr_checkpoint_part_file(c, "optimizer", err) : NULL;
    dlr_differences list = {0};
    if (!b) return false;
    dlr_run_compare(r, c, &list);
    dlr_st_compare(r->arena, a, model.list, model.n, &list);
    dlr_st_compare(r->arena, b, optimizer.list, optimizer.n, &list);
    if (!check_same(r, c, &list, err) || !dlr_tensors_load(&model, a, err) ||
        !dlr_tensors_load(&optimizer, b, err) || !load_scaler(r, c, err))
        return false;
    r->at = c->state;
    r->at.values = NULL, r->at.n_values = 0; /* they are the checkpoint's memory */
    r->steps.seconds = real(c, "epoch_seconds"), r->steps.wait = real(c, "epoch_wait"),
    r->last_rate = real(c, "learning_rate");
    r->best_epoch = dlr_checkpoint_integer(c, "best_epoch");
    const dlr_state_value *from = dlr_checkpoint_value(c, "from");
    r->from = from && from->kind == DLR_STATE_TEXT && *from->text ? dl_strdup(r->arena, from->text)
                                                                  : NULL;
    restore_sums(&r->trained, c);
    move_within_epoch(r, c);
    if (r->o->plateau) restore_plateau(&r->plateau, r->rates.init, c);
    return true;
}

/* ---- which checkpoint ---- */

/* A place of checkpoints, and of the points that were recorded with them. */
typedef struct {
    const char *dir, *which; /* as dlr_checkpoint_open */
    const char *run;         /* the run's directory; NULL: not known */
    bool other;              /* than this run's own */
} source;

static bool same_place(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether the run's own newest checkpoint came of resuming from `whole`: then the same command is
 * repeated, as a queue does, and continues from that checkpoint. */
static bool has_gone_on(const dlr_run *r, const char *whole) {
    dlr_checkpoint *own = NULL;
    dl_error none = {0};
    dlr_checkpoint_open(r->o->dir->checkpoints, "last", dlr_run_readers(r), &own, &none);
    const dlr_state_value *from = own ? dlr_checkpoint_value(own, "from") : NULL;
    bool same = from && from->kind == DLR_STATE_TEXT && strcmp(from->text, whole) == 0;
    dlr_checkpoint_close(own);
    return same;
}

static bool choose_source(dlr_run *r, source *s, dl_error *err) {
    const dlr_rundir *dir = r->o->dir;
    const char *named = r->o->resume_from;
    dlr_checkpoint_place place;
    *s = (source){.dir = dir->checkpoints, .which = "last", .run = dir->path};
    if (!named) return true;
    char *whole = realpath(named, NULL);
    if (!whole) return dl_fail_errno(err, DL_IO, "cannot open %s", named);
    const char *from = dl_strdup(r->arena, whole);
    free(whole);
    if (has_gone_on(r, from)) {
        dlr_log_info(
            "resume: this run has already gone on from %s, and goes on with its own checkpoints",
            named);
        return true;
    }
    if (!dlr_checkpoint_find(r->arena, named, &place, err)) return false;
    *s = (source){place.dir, place.which, place.run, .other = true};
    const char *folder = place.which ? place.dir : dl_format(r->arena, "%s/..", place.dir);
    if (same_place(folder, dir->checkpoints)) s->other = false, s->run = dir->path;
    if (s->other) r->from = from;
    return true;
}

/* Ours; *c NULL: there is none. */
static bool open_ours(const dlr_run *r, const source *s, dlr_checkpoint **c, dl_error *err) {
    *c = NULL;
    if (dlr_checkpoint_open(s->dir, s->which, dlr_run_readers(r), c, err) == DLR_CHECKPOINT_FAILED)
        return false;
    for (int i = 0; *c && i < (*c)->n_warnings; i++) dlr_log_warning("%s", (*c)->warnings[i]);
    return true;
}

bool dlr_run_restore(dlr_run *r, bool *restored, dl_error *err) {
    dlr_checkpoint *ours = NULL;
    dlr_st_file *theirs = NULL;
    source s;
    *restored = false;
    if (!choose_source(r, &s, err) || !open_ours(r, &s, &ours, err)) return false;
    const char *from = r->from;
    bool ok =
        !s.which || dlr_run_find_torch(r, s.dir, s.run, ours ? &ours->state : NULL, &theirs, err);
    const char *path = theirs ? theirs->path : ours ? ours->path : NULL;
    bool adopts = ok && ours && !theirs && !s.other && dlr_run_leads(r->o);
    if (ok && path) ok = theirs ? dlr_run_load_torch(r, theirs, s.run, err) : load(r, ours, err);
    bool is_best = ours && ours->state.position == 0 && r->best_epoch == r->at.epoch - 1 &&
                   r->at.best_loss < INFINITY;
    if (ok && adopts) ok = dlr_checkpoint_adopt(s.dir, ours, is_best, err);
    if (s.other) r->from = from, r->other = true, r->source = s.run;
    if (ok && path)
        dlr_log_info("going on from step %lld of %s: epoch %lld, batch %lld of %lld",
                     (long long)r->at.iteration, path, (long long)r->at.epoch + 1,
                     (long long)r->at.position, (long long)r->epoch_batches);
    else if (ok && s.other)
        ok = dl_fail(err, DL_INPUT, "no checkpoint is in %s to go on from", s.dir);
    else if (ok)
        dlr_log_info("resume: no checkpoint in %s yet, so this run starts from the beginning",
                     s.dir);
    *restored = ok && path;
    dlr_st_close(theirs);
    dlr_checkpoint_close(ours);
    return ok;
}
