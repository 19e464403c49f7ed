/* Where a run begins: from a checkpoint of its own, from another run's, or from PyTorch's. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/formats/log.h"
#include "runtime/train/run.h"

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
    dlr_checkpoint_open(r->o->dir->checkpoints, "last", dlr_ranks_readers(&r->o->ranks, r->arena),
                        &own, &none);
    const char *from = own ? dlr_state_text(own, "from") : NULL;
    bool same = from && strcmp(from, whole) == 0;
    dlr_checkpoint_close(own);
    return same;
}

static bool choose_source(dlr_run *r, source *s, dl_error *err) {
    const dlr_rundir *dir = r->o->dir;
    const char *named = r->o->resume.from;
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
    if (s->other) r->origin.from = from;
    return true;
}

/* Ours; *c NULL: there is none. */
static bool open_ours(const dlr_run *r, const source *s, dlr_checkpoint **c, dl_error *err) {
    *c = NULL;
    if (dlr_checkpoint_open(s->dir, s->which, dlr_ranks_readers(&r->o->ranks, r->arena), c, err) ==
        DLR_CHECKPOINT_FAILED)
        return false;
    for (int i = 0; *c && i < (*c)->n_warnings; i++) dlr_log_warning("%s", (*c)->warnings[i]);
    return true;
}

bool dlr_run_restore(dlr_run *r, dl_error *err) {
    dlr_checkpoint *ours = NULL;
    dlr_st_file *theirs = NULL;
    source s;
    if (!choose_source(r, &s, err) || !open_ours(r, &s, &ours, err)) return false;
    const char *from = r->origin.from;
    bool ok =
        !s.which || dlr_run_find_torch(r, s.dir, s.run, ours ? &ours->state : NULL, &theirs, err);
    const char *path = theirs ? theirs->path : ours ? ours->path : NULL;
    bool adopts = ok && ours && !theirs && !s.other && dlr_is_rank0(&r->o->ranks);
    if (ok && path)
        ok = theirs ? dlr_run_load_torch(r, theirs, s.run, err) : dlr_run_load(r, ours, err);
    bool is_best = ours && ours->state.position == 0 && dlr_best_is(&r->best, r->at.iteration);
    if (ok && adopts) ok = dlr_checkpoint_adopt(s.dir, ours, is_best, err);
    if (s.other) r->origin.from = from, r->origin.other = true, r->origin.source = s.run;
    if (ok && path)
        dlr_log_info("going on from step %lld of %s: epoch %lld, batch %lld of %lld",
                     (long long)r->at.iteration, path, (long long)r->at.epoch + 1,
                     (long long)r->at.position, (long long)r->batches.epoch_batches);
    else if (ok && s.other)
        ok = dl_fail(err, DL_INPUT, "no checkpoint is in %s to go on from", s.dir);
    else if (ok)
        dlr_log_info("resume: no checkpoint in %s yet, so this run starts from the beginning",
                     s.dir);
    r->origin.restored = ok && path;
    dlr_st_close(theirs);
    dlr_checkpoint_close(ours);
    return ok;
}
