/* trials.jsonl: its lines, read as trials and appended. */
#include "runtime/sweep/sweep_journal.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/formats/metrics.h"

enum { MAX_BYTES = 1 << 30 };

static const char *const events[DLR_N_TRIAL_STATES] = {
    [DLR_TRIAL_TAKEN] = "taken", [DLR_TRIAL_RETURNED] = "returned", [DLR_TRIAL_ASKED] = "asked",
    [DLR_TRIAL_DONE] = "done",   [DLR_TRIAL_STOPPED] = "stopped",   [DLR_TRIAL_FAILED] = "failed"};

void dlr_journal_close(dlr_journal *j) {
    if (j->fd >= 0) close(j->fd); /* and with it the lock */
    j->fd = -1;
}

bool dlr_journal_open(dl_arena *arena, const char *dir, bool appends, dlr_journal *j,
                      dl_error *err) {
    *j = (dlr_journal){.path = dl_format(arena, "%s/trials.jsonl", dir), .fd = -1};
    if (!appends && access(j->path, F_OK) != 0 && errno == ENOENT) return true;
    j->fd = appends ? dl_append_open(j->path, DL_APPEND, err) : dl_file_open(j->path, err);
    if (j->fd < 0) return false;
    if (flock(j->fd, appends ? LOCK_EX : LOCK_SH) == 0) return true;
    dl_fail_errno(err, DL_IO, "cannot lock %s, by which jobs share a sweep", j->path);
    dlr_journal_close(j);
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

dlr_trial *dlr_trials_find(const dlr_trials *all, int64_t number) {
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
    dlr_trial *t = dlr_trials_find(all, number);
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
    dlr_trial *t = dlr_trials_find(all, number->integer);
    bool first = state == DLR_TRIAL_TAKEN || state == DLR_TRIAL_ASKED || values;
    if (first) { /* an event that begins a trial, or takes it up again */
        if (!name || !run || !dl_is_file_name(run) || !values || values->kind != DLR_JSON_OBJECT)
            return false;
        if (!t) t = place_of(arena, all, number->integer);
        dl_buf b = {0};
        dlr_json_put(&b, values);
        t->name = name, t->run = run, t->values = dl_strndup(arena, b.at, b.n);
        dl_buf_free(&b);
        t->host = text_of(event, "host"), t->pid = whole_of(event, "pid");
        if (state == DLR_TRIAL_TAKEN) t->taken++, t->lost++; /* until it says otherwise */
    }
    if (!t) return false;
    t->state = (dlr_trial_state)state;
    t->status = (int)whole_of(event, "status"), t->why = text_of(event, "message");
    if (dlr_trial_has_result(t)) take_result(event, &t->result);
    if (dlr_trial_has_result(t) || t->status == DL_REQUEUE) t->lost = 0;
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

bool dlr_journal_read(dl_arena *arena, dlr_journal *j, dlr_trials *all, dl_error *err) {
    size_t n, end = 0;
    if (j->fd < 0) return true;
    const char *text = dl_read_file(arena, j->path, MAX_BYTES, &n, err);
    bool ok = text && dlr_trials_parse(arena, text, n, j->path, all, &end, err);
    j->end = (int64_t)end;
    return ok;
}

bool dlr_journal_append(dlr_journal *j, const dl_buf *line, dl_error *err) {
    if (ftruncate(j->fd, j->end) != 0) return dl_fail_errno(err, DL_IO, "cannot write %s", j->path);
    return dl_append(j->fd, j->path, line->at, line->n, &j->end, err) &&
           (fdatasync(j->fd) == 0 || dl_fail_errno(err, DL_IO, "cannot make %s durable", j->path));
}

void dlr_journal_put(dl_buf *b, int64_t number, dlr_trial_state state) {
    dl_putf(b, "{\"trial\": %lld, \"event\": \"%s\"", (long long)number, events[state]);
}

void dlr_journal_put_string(dl_buf *b, const char *key, const char *text) {
    if (!text) return;
    dlr_json_put_key(b, key);
    dlr_json_put_string(b, text);
}

void dlr_journal_put_end(dl_buf *b) { dl_putf(b, ", \"time\": %lld}\n", (long long)time(NULL)); }
