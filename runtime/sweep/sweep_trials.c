#include "runtime/sweep/sweep_trials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/formats/metrics.h"

enum { MAX_BYTES = 1 << 30 };

static const char *const events[DLR_N_TRIAL_STATES] = {"taken", "returned", "done", "failed"};

/* ---- the file ---- */

/* trials.jsonl, open and locked. */
typedef struct {
    const char *path;
    int fd;
    int64_t end; /* of its last whole line */
} journal;

static void close_journal(journal *j) {
    if (j->fd >= 0) close(j->fd); /* and with it the lock */
    j->fd = -1;
}

/* Waits for who has it. To read, one that is not there yet is empty, and has no descriptor. */
static bool open_journal(dl_arena *arena, const char *dir, bool appends, journal *j,
                         dl_error *err) {
    *j = (journal){.path = dl_format(arena, "%s/trials.jsonl", dir), .fd = -1};
    if (!appends && access(j->path, F_OK) != 0 && errno == ENOENT) return true;
    j->fd = appends ? dl_append_open(j->path, DL_APPEND, err) : dl_file_open(j->path, err);
    if (j->fd < 0) return false;
    if (flock(j->fd, appends ? LOCK_EX : LOCK_SH) == 0) return true;
    dl_fail_errno(err, DL_IO, "cannot lock %s, by which jobs share a sweep", j->path);
    close_journal(j);
    return false;
}

static const char *text_of(const dlr_json *event, const char *key) {
    const dlr_json *v = dlr_json_get(event, key);
    return v && v->kind == DLR_JSON_STRING ? v->string : NULL;
}

static int64_t whole_of(const dlr_json *event, const char *key) {
    const dlr_json *v = dlr_json_get(event, key);
    return v && v->kind == DLR_JSON_INT ? v->integer : 0;
}

static dlr_trial *find(const dlr_trials *all, int64_t number) {
    int low = 0, high = all->list.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (all->list.at[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < all->list.n && all->list.at[low].number == number ? &all->list.at[low] : NULL;
}

/* The trial, made in its place where it is new. */
static dlr_trial *place_of(dl_arena *arena, dlr_trials *all, int64_t number) {
    dlr_trial *t = find(all, number);
    if (t) return t;
    dl_push(arena, &all->list, (dlr_trial){.number = number});
    int i = all->list.n - 1;
    for (; i > 0 && all->list.at[i - 1].number > number; i--) all->list.at[i] = all->list.at[i - 1];
    all->list.at[i] = (dlr_trial){.number = number};
    return &all->list.at[i];
}

static void take_result(const dlr_json *event, dlr_trial_result *r) {
    r->any =
        dlr_metrics_value(event, "metric", &r->last) && dlr_metrics_value(event, "best", &r->best);
    r->best_epoch = whole_of(event, "best_epoch"), r->epochs = whole_of(event, "epochs");
}

/* False: the line is no event. */
static bool take_event(dl_arena *arena, const dlr_json *event, dlr_trials *all) {
    const dlr_json *number = dlr_json_get(event, "trial"), *values = dlr_json_get(event, "values");
    const char *what = text_of(event, "event"), *name = text_of(event, "name"),
               *run = text_of(event, "run");
    int state = 0;
    if (!number || number->kind != DLR_JSON_INT || number->integer < 0 || !what) return false;
    while (state < DLR_N_TRIAL_STATES && strcmp(events[state], what) != 0) state++;
    if (state == DLR_N_TRIAL_STATES) return false;
    dlr_trial *t = find(all, number->integer);
    if (state == DLR_TRIAL_TAKEN) {
        if (!name || !run || !dl_is_file_name(run) || !values || values->kind != DLR_JSON_OBJECT)
            return false;
        if (!t) t = place_of(arena, all, number->integer);
        dl_buf b = {0};
        dlr_json_put(&b, values);
        t->name = name, t->run = run, t->values = dl_strndup(arena, b.at, b.n);
        dl_buf_free(&b);
        t->host = text_of(event, "host"), t->pid = whole_of(event, "pid");
        t->taken++, t->lost++; /* until it says otherwise */
    }
    if (!t) return false;
    t->state = (dlr_trial_state)state;
    t->status = (int)whole_of(event, "status"), t->why = text_of(event, "message");
    if (state == DLR_TRIAL_DONE) take_result(event, &t->result);
    if (state == DLR_TRIAL_DONE || t->status == DL_REQUEUE) t->lost = 0;
    return true;
}

bool dlr_trials_parse(dl_arena *arena, const char *text, size_t n, const char *path,
                      dlr_trials *all, size_t *end, dl_error *err) {
    enum { DEPTH = 64, VALUES = 100000 };
    const char *newline;
    int line = 1;
    *end = 0;
    for (const char *at = text; (newline = memchr(at, '\n', n - (size_t)(at - text)));
         at = newline + 1) {
        dl_error ignored = {0};
        const dlr_json *event = dlr_json_parse(arena, at, (size_t)(newline - at),
                                               (dlr_json_limits){DEPTH, VALUES}, "", &ignored);
        if (!event || !take_event(arena, event, all))
            return dl_fail(
                err, DL_INPUT,
                "%s:%d:1: error: this is no event of a trial; without the line, what it said is "
                "done again",
                path, line);
        line++;
        *end = (size_t)(newline + 1 - text);
    }
    return true;
}

static bool read_journal(dl_arena *arena, journal *j, dlr_trials *all, dl_error *err) {
    size_t n, end = 0;
    if (j->fd < 0) return true;
    const char *text = dl_read_file(arena, j->path, MAX_BYTES, &n, err);
    bool ok = text && dlr_trials_parse(arena, text, n, j->path, all, &end, err);
    j->end = (int64_t)end;
    return ok;
}

/* Cuts off what a killed writer has left without an end. */
static bool append(journal *j, const dl_buf *line, dl_error *err) {
    if (ftruncate(j->fd, j->end) != 0) return dl_fail_errno(err, DL_IO, "cannot write %s", j->path);
    return dl_append(j->fd, j->path, line->at, line->n, &j->end, err) &&
           (fdatasync(j->fd) == 0 || dl_fail_errno(err, DL_IO, "cannot make %s durable", j->path));
}

/* The begin of every event; put_end has the end. */
static void put_event(dl_buf *b, int64_t number, dlr_trial_state state) {
    dl_putf(b, "{\"trial\": %lld, \"event\": \"%s\"", (long long)number, events[state]);
}

static void put_string(dl_buf *b, const char *key, const char *text) {
    if (!text) return;
    dlr_json_put_key(b, key);
    dlr_json_put_string(b, text);
}

static void put_end(dl_buf *b) { dl_putf(b, ", \"time\": %lld}\n", (long long)time(NULL)); }

/* ---- results ---- */

typedef struct {
    const char *metric;
    bool maximize;
    dlr_trial_result *result;
} measuring;

static void measure_point(void *ctx, const dlr_json *point) {
    const measuring *m = ctx;
    dlr_trial_result *r = m->result;
    double value;
    int64_t epoch = whole_of(point, "epoch");
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
    journal j;
    *all = (dlr_trials){.dir = dir};
    if (!open_journal(arena, dir, false, &j, err)) return false;
    bool ok = read_journal(arena, &j, all, err);
    for (int i = 0; ok && i < all->list.n; i++) {
        dlr_trial *t = &all->list.at[i];
        t->held = is_held(arena, dir, t);
        if (t->state != DLR_TRIAL_DONE)
            ok = dlr_trial_measure(dl_format(arena, "%s/%s/metrics.jsonl", dir, t->run), metric,
                                   maximize, &t->result, err);
    }
    close_journal(&j);
    return ok;
}

int64_t dlr_trials_ended(const dlr_trials *all) {
    int64_t n = 0;
    for (int i = 0; i < all->list.n; i++)
        n += all->list.at[i].state == DLR_TRIAL_DONE || all->list.at[i].state == DLR_TRIAL_FAILED;
    return n;
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
            if (t->state == DLR_TRIAL_DONE || t->state == DLR_TRIAL_FAILED) continue;
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

/* The first that nobody has taken. False: there is none left, or an error. */
static bool make_new(const taking *k, dlr_trial *t, dl_error *err) {
    int64_t number = 0;
    while (number < k->all.list.n && k->all.list.at[number].number == number) number++;
    if (k->maker->trials >= 0 && number >= k->maker->trials) return false;
    *t = (dlr_trial){.number = number};
    k->maker->make(k->maker->of, k->arena, number, &t->name, &t->values);
    t->run = dl_format(k->arena, "%s%s", k->maker->prefix, t->name);
    if (has_run(k, t->run)) {
        t->name = dl_format(k->arena, "%s_t%lld", t->name, (long long)number);
        t->run = dl_format(k->arena, "%s%s", k->maker->prefix, t->name);
    }
    if (lock(k, t, err)) return true;
    return err->code == DL_OK
               ? dl_fail(err, DL_USAGE, "a run that is none of this sweep's is at work in %s/%s",
                         k->dir, t->run)
               : false;
}

static bool note_taken(journal *j, const dlr_trial *t, dl_error *err) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    dl_buf b = {0};
    put_event(&b, t->number, DLR_TRIAL_TAKEN);
    put_string(&b, "name", t->name);
    put_string(&b, "run", t->run);
    dlr_json_put_key(&b, "values");
    dl_puts(&b, t->values);
    put_string(&b, "host", host);
    dl_putf(&b, ", \"pid\": %lld", (long long)getpid());
    put_string(&b, "job", getenv("SLURM_JOB_ID"));
    put_end(&b);
    bool ok = append(j, &b, err);
    dl_buf_free(&b);
    return ok;
}

bool dlr_trials_take(dl_arena *arena, const char *dir, const dlr_trial_maker *maker, bool look,
                     dlr_trial *trial, dlr_rundir *run, dl_error *err) {
    enum { EVER = 1 << 30 };
    journal j;
    taking k = {.arena = arena, .dir = dir, .maker = maker, .look = look, .run = run};
    *trial = (dlr_trial){.number = -1};
    if (!open_journal(arena, dir, !look, &j, err)) return false;
    if (read_journal(arena, &j, &k.all, err)) {
        const dlr_trial *open = find_open(&k, 0, DLR_TRIAL_LOST, err);
        bool fresh = !open && err->code == DL_OK && make_new(&k, trial, err);
        if (!open && !fresh && err->code == DL_OK) open = find_open(&k, DLR_TRIAL_LOST, EVER, err);
        if (open) *trial = *open;
        if (!open && !fresh) trial->number = -1;
        if (trial->number >= 0 && !look && !note_taken(&j, trial, err)) dlr_rundir_close(run);
    }
    close_journal(&j);
    return err->code == DL_OK;
}

/* ---- ends ---- */

static dlr_trial_state state_of(const dlr_trial *t, int status) {
    switch (status) {
    case DL_OK: return DLR_TRIAL_DONE;
    case DL_USAGE:
    case DL_INPUT:
    case DL_NUMERIC: return DLR_TRIAL_FAILED;
    case DL_REQUEUE: return DLR_TRIAL_RETURNED;
    default: return t->lost + 1 < DLR_TRIAL_LOST ? DLR_TRIAL_RETURNED : DLR_TRIAL_FAILED;
    }
}

bool dlr_trials_end(const char *dir, const dlr_trial *trial, int status, const char *why,
                    const dlr_trial_result *result, int64_t *ended, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_trial_state state = state_of(trial, status);
    dl_buf b = {0};
    journal j;
    put_event(&b, trial->number, state);
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
    put_string(&b, "message", why);
    put_end(&b);
    dlr_trials all = {.dir = dir};
    bool ok = open_journal(arena, dir, true, &j, err);
    *ended = state == DLR_TRIAL_DONE || state == DLR_TRIAL_FAILED;
    if (ok) {
        ok = read_journal(arena, &j, &all, err) && append(&j, &b, err);
        close_journal(&j);
        *ended += dlr_trials_ended(&all);
    }
    dl_buf_free(&b);
    dl_arena_free(arena);
    return ok;
}
