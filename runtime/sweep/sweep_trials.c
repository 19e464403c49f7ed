/* Trials of a sweep: who takes which, and how they end. */
#include "runtime/sweep/sweep_journal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "ir/base/str.h"
#include "runtime/formats/metrics.h"

/* ---- results ---- */

/* Whether a point is the untrained model's, on one batch: no result. */
static bool is_untrained(const dlr_json *point) {
    double step;
    return dlr_metrics_value(point, "iteration", &step) && step == 0;
}

typedef struct {
    const char *metric;
    bool maximize;
    dlr_trial_result *result;
} measuring;

static void measure_point(void *ctx, const dlr_json *point) {
    const measuring *m = ctx;
    dlr_trial_result *r = m->result;
    double value;
    const dlr_json *at = dlr_json_get(point, "epoch");
    if (is_untrained(point)) return;
    int64_t epoch = at && at->kind == DLR_JSON_INT ? at->integer : 0;
    if (epoch > r->epochs) r->epochs = epoch;
    if (!dlr_metrics_value(point, m->metric, &value)) return;
    if (!r->any || (m->maximize ? value > r->best : value < r->best))
        r->best = value, r->best_epoch = epoch;
    r->any = true, r->last = value;
}

bool dlr_trial_measure(const char *metrics, const char *metric, bool maximize,
                       dlr_trial_result *result, dl_error *err) {
    *result = (dlr_trial_result){0};
    measuring m = {metric, maximize, result};
    return dlr_metrics_read(metrics, measure_point, &m, err);
}

typedef struct {
    dl_arena *arena;
    const char *metric;
    double sign;
    DL_ARRAY(double) losses;
} curve_reading;

static void add_point(void *ctx, const dlr_json *point) {
    curve_reading *c = ctx;
    double value;
    if (!is_untrained(point) && dlr_metrics_value(point, c->metric, &value))
        dl_push(c->arena, &c->losses, c->sign * value);
}

bool dlr_trial_curve(dl_arena *arena, const char *metrics, const char *metric, bool maximize,
                     dl_sweep_curve *curve, dl_error *err) {
    curve_reading c = {.arena = arena, .metric = metric, .sign = maximize ? -1 : 1};
    bool ok = dlr_metrics_read(metrics, add_point, &c, err);
    *curve = (dl_sweep_curve){c.losses.n, c.losses.at};
    return ok;
}

/* ---- reading ---- */

/* Whether a run is at work in the trial's folder; while the journal is locked, so that nobody who
 * would take it meets this lock. */
static bool is_held(dl_arena *arena, const char *dir, const dlr_trial *t) {
    int fd = open(dl_format(arena, "%s/%s", dir, t->run), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (fd >= 0) close(fd);
    return held;
}

bool dlr_trials_read(dl_arena *arena, const char *dir, const char *metric, bool maximize,
                     dlr_trials *all, dl_error *err) {
    dlr_journal j;
    *all = (dlr_trials){.dir = dir};
    if (!dlr_journal_open(arena, dir, false, &j, err)) return false;
    bool ok = dlr_journal_read(arena, &j, all, err);
    for (int i = 0; ok && i < all->list.n; i++) {
        dlr_trial *t = &all->list.at[i];
        t->held = is_held(arena, dir, t);
        if (!dlr_trial_has_result(t))
            ok = dlr_trial_measure(dl_format(arena, "%s/%s/metrics.jsonl", dir, t->run), metric,
                                   maximize, &t->result, err);
    }
    dlr_journal_close(&j);
    return ok;
}

int64_t dlr_trials_ended(const dlr_trials *all) {
    int64_t n = 0;
    for (int i = 0; i < all->list.n; i++) n += dlr_trial_is_over(&all->list.at[i]);
    return n;
}

const dlr_trial *dlr_trials_best(const dlr_trials *all, bool maximize) {
    const dlr_trial *best = NULL;
    for (int i = 0; i < all->list.n; i++) {
        const dlr_trial *t = &all->list.at[i];
        if (!t->result.any || t->state == DLR_TRIAL_FAILED) continue;
        double x = t->result.best;
        if (!best || (maximize ? x > best->result.best : x < best->result.best)) best = t;
    }
    return best;
}

/* ---- taking ---- */

typedef struct {
    dl_arena *arena;
    const char *dir;
    const dlr_trial_maker *maker;
    bool look;
    dlr_trials all;
    dlr_rundir *run;
} taking;

/* Whether the trial's folder could be locked, and now is. False without an error: somebody has it.
 */
static bool lock(const taking *k, const dlr_trial *t, dl_error *err) {
    dl_error why = {0};
    if (k->look) return !is_held(k->arena, k->dir, t);
    if (dlr_rundir_open(k->arena, dl_format(k->arena, "%s/%s", k->dir, t->run), k->run, &why))
        return true;
    return why.code == DL_USAGE ? false : dl_fail(err, why.code, "%s", why.message);
}

/* One that was taken before, lost fewer times than `most`; the rarest lost first. NULL: there is
 * none that is free, or an error. */
static const dlr_trial *find_open(const taking *k, int least, int most, dl_error *err) {
    for (int lost = least, next = most; lost < most && err->code == DL_OK; lost = next, next = most)
        for (int i = 0; i < k->all.list.n; i++) {
            const dlr_trial *t = &k->all.list.at[i];
            if (dlr_trial_is_over(t) || t->state == DLR_TRIAL_ASKED) continue;
            if (t->lost == lost && lock(k, t, err)) return t;
            if (t->lost > lost && t->lost < next) next = t->lost;
            if (err->code != DL_OK) return NULL;
        }
    return NULL;
}

static bool has_run(const taking *k, const char *run) {
    for (int i = 0; i < k->all.list.n; i++)
        if (strcmp(k->all.list.at[i].run, run) == 0) return true;
    return false;
}

/* The first that nobody has taken, with the values `given`, or its own (NULL). False: there is none
 * left. */
static bool make_new(const taking *k, const char *given, dlr_trial *t) {
    int64_t number = 0;
    while (number < k->all.list.n && k->all.list.at[number].number == number) number++;
    if (k->maker->trials >= 0 && number >= k->maker->trials) return false;
    *t = (dlr_trial){.number = number};
    k->maker->make(k->maker->of, k->arena, &k->all, number, given, &t->name, &t->values);
    t->run = dl_format(k->arena, "%s%s", k->maker->prefix, t->name);
    if (has_run(k, t->run)) {
        t->name = dl_format(k->arena, "%s_t%lld", t->name, (long long)number);
        t->run = dl_format(k->arena, "%s%s", k->maker->prefix, t->name);
    }
    return true;
}

static bool lock_new(const taking *k, const dlr_trial *t, dl_error *err) {
    if (lock(k, t, err)) return true;
    return err->code == DL_OK
               ? dl_fail(err, DL_USAGE, "a run that is none of this sweep's is at work in %s/%s",
                         k->dir, t->run)
               : false;
}

static bool note_taken(dlr_journal *j, const dlr_trial *t, dlr_trial_state state, dl_error *err) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    dl_buf b = {0};
    dlr_journal_put(&b, t->number, state);
    dlr_journal_put_string(&b, "name", t->name);
    dlr_journal_put_string(&b, "run", t->run);
    dlr_json_put_key(&b, "values");
    dl_puts(&b, t->values);
    dlr_journal_put_string(&b, "host", host);
    dl_putf(&b, ", \"pid\": %lld", (long long)getpid());
    dlr_journal_put_string(&b, "job", getenv("SLURM_JOB_ID"));
    dlr_journal_put_end(&b);
    bool ok = dlr_journal_append(j, &b, err);
    dl_buf_free(&b);
    return ok;
}

bool dlr_trials_take(dl_arena *arena, const char *dir, const dlr_trial_maker *maker, bool look,
                     dlr_trial *trial, dlr_rundir *run, dl_error *err) {
    enum { EVER = 1 << 30 };
    dlr_journal j;
    taking k = {.arena = arena, .dir = dir, .maker = maker, .look = look, .run = run};
    *trial = (dlr_trial){.number = -1};
    if (!dlr_journal_open(arena, dir, !look, &j, err)) return false;
    if (dlr_journal_read(arena, &j, &k.all, err)) {
        const dlr_trial *open = find_open(&k, 0, DLR_TRIAL_LOST, err);
        bool fresh =
            !open && err->code == DL_OK && make_new(&k, NULL, trial) && lock_new(&k, trial, err);
        if (!open && !fresh && err->code == DL_OK) open = find_open(&k, DLR_TRIAL_LOST, EVER, err);
        if (open) *trial = *open;
        if (!open && !fresh) trial->number = -1;
        if (trial->number >= 0 && !look && !note_taken(&j, trial, DLR_TRIAL_TAKEN, err))
            dlr_rundir_close(run);
    }
    dlr_journal_close(&j);
    return err->code == DL_OK;
}

bool dlr_trials_add(dl_arena *arena, const char *dir, const dlr_trial_maker *maker,
                    dlr_trial_state state, const char *values, dlr_trial *trial, dl_error *err) {
    dlr_journal j;
    taking k = {.arena = arena, .dir = dir, .maker = maker};
    *trial = (dlr_trial){.number = -1};
    if (!dlr_journal_open(arena, dir, true, &j, err)) return false;
    bool ok = dlr_journal_read(arena, &j, &k.all, err);
    if (ok && make_new(&k, values, trial)) ok = note_taken(&j, trial, state, err);
    dlr_journal_close(&j);
    return ok;
}

/* ---- ends ---- */

static dlr_trial_state state_of(const dlr_trial *t, int status, bool early) {
    switch (status) {
    case DL_OK: return early ? DLR_TRIAL_STOPPED : DLR_TRIAL_DONE;
    case DL_USAGE:
    case DL_INPUT:
    case DL_NUMERIC: return DLR_TRIAL_FAILED;
    case DL_REQUEUE: return DLR_TRIAL_RETURNED;
    default: return t->lost + 1 < DLR_TRIAL_LOST ? DLR_TRIAL_RETURNED : DLR_TRIAL_FAILED;
    }
}

bool dlr_trials_end(const char *dir, const dlr_trial *trial, int status, bool early,
                    const char *why, const dlr_trial_result *result, int64_t *ended,
                    dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_trial_state state = state_of(trial, status, early);
    dl_buf b = {0};
    dlr_journal j;
    dlr_journal_put(&b, trial->number, state);
    if (status)
        dl_putf(&b, ", \"status\": %d", status);
    else if (result->any) {
        dlr_json_put_key(&b, "metric");
        dlr_json_put_double(&b, result->last);
        dlr_json_put_key(&b, "best");
        dlr_json_put_double(&b, result->best);
        dl_putf(&b, ", \"best_epoch\": %lld", (long long)result->best_epoch);
    }
    dl_putf(&b, ", \"epochs\": %lld", (long long)result->epochs);
    dlr_journal_put_string(&b, "message", why);
    dlr_journal_put_end(&b);
    dlr_trials all = {.dir = dir};
    bool ok = dlr_journal_open(arena, dir, true, &j, err);
    dlr_trial after = {.state = state};
    *ended = dlr_trial_is_over(&after);
    if (ok) {
        ok = dlr_journal_read(arena, &j, &all, err) && dlr_journal_append(&j, &b, err);
        dlr_journal_close(&j);
        *ended += dlr_trials_ended(&all);
    }
    dl_buf_free(&b);
    dl_arena_free(arena);
    return ok;
}
