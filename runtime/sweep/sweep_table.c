/* How a sweep stands: as a table for people, as JSON for programs. */
#include <stdio.h>

#include "runtime/formats/json.h"
#include "runtime/sweep/sweep.h"

const char *dl_sweep_state(const dlr_trial *t) {
    static const char *const words[DLR_N_TRIAL_STATES] = {
        [DLR_TRIAL_TAKEN] = "lost", [DLR_TRIAL_RETURNED] = "waits",  [DLR_TRIAL_ASKED] = "asked",
        [DLR_TRIAL_DONE] = "done",  [DLR_TRIAL_STOPPED] = "stopped", [DLR_TRIAL_FAILED] = "failed"};
    bool open = t->state == DLR_TRIAL_TAKEN || t->state == DLR_TRIAL_RETURNED;
    return open && t->held ? "runs" : words[t->state];
}

/* ---- the table ---- */

typedef struct {
    int rows, columns;
    const char **cells; /* [rows][columns] */
} table;

static void print(const dl_console *out, const table *t) {
    dl_buf b = {0};
    for (int i = 0; i < t->rows; i++) {
        for (int k = 0; k < t->columns; k++) {
            int width = 0;
            for (int r = 0; r < t->rows; r++) {
                int n = (int)strlen(t->cells[r * t->columns + k]);
                if (n > width) width = n;
            }
            bool last = k + 1 == t->columns;
            dl_putf(&b, "%s%-*s", k ? "  " : "", last ? 0 : width, t->cells[i * t->columns + k]);
        }
        dl_puts(&b, "\n");
    }
    dl_console_puts(out, b.at);
    dl_buf_free(&b);
}

static const char *number(dl_arena *arena, double x) { return dl_format(arena, "%.6g", x); }

/* A value in words. */
static const char *value_of(dl_arena *arena, const dl_yaml *values, const char *name) {
    const dl_yaml *v = values ? dl_yaml_get(values, name) : NULL;
    if (!v) return "-"; /* of a trial that was taken when the file was another one */
    return v->kind == DL_YAML_LIST || v->kind == DL_YAML_MAP ? dl_yaml_show(arena, v) : v->text;
}

static void print_table(const dl_console *out, dl_arena *arena, const dl_sweep_file *f,
                        const dlr_trials *all) {
    enum { BEFORE = 2, AFTER = 4 };
    const dlr_trial *best = f->metric ? dlr_trials_best(all, f->maximize) : NULL;
    table t = {.rows = all->list.n + 1, .columns = BEFORE + f->n + AFTER};
    t.cells = DL_NEWS(arena, const char *, t.rows *t.columns);
    const char **head = t.cells;
    *head++ = "  trial";
    *head++ = "name";
    for (int i = 0; i < f->n; i++) *head++ = f->parameters[i].name;
    *head++ = "state";
    *head++ = "epochs";
    *head++ = f->metric ? f->metric : "-";
    *head++ = "best (epoch)";
    for (int i = 0; i < all->list.n; i++) {
        const dlr_trial *a = &all->list.at[i];
        dl_error none = {0};
        const dl_yaml *values = dl_yaml_read(arena, a->values, strlen(a->values), a->name, &none);
        const char **cell = t.cells + (i + 1) * t.columns;
        *cell++ = dl_format(arena, "%s %lld", a == best ? "*" : " ", (long long)a->number);
        *cell++ = a->name;
        for (int k = 0; k < f->n; k++) *cell++ = value_of(arena, values, f->parameters[k].name);
        *cell++ = dl_sweep_state(a);
        *cell++ = dl_format(arena, "%lld", (long long)a->result.epochs);
        *cell++ = a->result.any ? number(arena, a->result.last) : "-";
        *cell++ = a->result.any ? dl_format(arena, "%s (%lld)", number(arena, a->result.best),
                                            (long long)a->result.best_epoch)
                                : "-";
    }
    if (all->list.n) print(out, &t);
    for (int i = 0; i < all->list.n; i++)
        if (all->list.at[i].why && !dlr_trial_has_result(&all->list.at[i]))
            dl_console_text(out, "trial %lld: %s\n", (long long)all->list.at[i].number,
                            dl_yaml_show(arena, dl_yaml_string(arena, all->list.at[i].why,
                                                               (dl_yaml_place){0})));
}

static void print_head(const dl_console *out, const dl_sweep_file *f, const dlr_trials *all) {
    static const char *const words[] = {"done",  "stopped", "failed", "runs",
                                        "asked", "waits",   "lost"};
    enum { WORDS = sizeof words / sizeof *words };
    int count[WORDS] = {0};
    for (int i = 0; i < all->list.n; i++)
        for (int k = 0; k < WORDS; k++)
            count[k] += strcmp(dl_sweep_state(&all->list.at[i]), words[k]) == 0;
    dl_console_text(out, "%s: %s", all->dir, f->method->name);
    if (f->metric)
        dl_console_text(out, ", %s %s", f->maximize ? "maximize" : "minimize", f->metric);
    if (f->stop.rule) dl_console_text(out, ", early_terminate %s", dl_sweep_stop_name(&f->stop));
    if (f->trials >= 0)
        dl_console_text(out, "; %lld trials", (long long)f->trials);
    else
        dl_console_text(out, "; trials without end");
    for (int k = 0; k < WORDS; k++)
        if (count[k]) dl_console_text(out, ", %d %s", count[k], words[k]);
    if (f->trials > all->list.n)
        dl_console_text(out, ", %lld to come", (long long)f->trials - all->list.n);
    dl_console_text(out, "\n");
}

/* ---- JSON ---- */

static void put_number(dl_buf *b, const char *key, bool any, double x) {
    dlr_json_put_key(b, key);
    if (any)
        dlr_json_put_double(b, x);
    else
        dl_puts(b, "null");
}

static void put_whole(dl_buf *b, const char *key, int64_t x) {
    dlr_json_put_key(b, key);
    dl_putf(b, "%lld", (long long)x);
}

static void put_text(dl_buf *b, const char *key, const char *text) {
    dlr_json_put_key(b, key);
    if (text)
        dlr_json_put_string(b, text);
    else
        dl_puts(b, "null");
}

static void put_trial(dl_buf *b, const dlr_trial *t) {
    dl_puts(b, "{");
    put_whole(b, "trial", t->number);
    put_text(b, "name", t->name);
    put_text(b, "run", t->run);
    dlr_json_put_key(b, "values");
    dl_puts(b, t->values);
    put_text(b, "state", dl_sweep_state(t));
    put_whole(b, "taken", t->taken);
    put_whole(b, "status", t->status);
    put_text(b, "message", t->why);
    put_whole(b, "epochs", t->result.epochs);
    put_number(b, "metric", t->result.any, t->result.last);
    put_number(b, "best", t->result.any, t->result.best);
    put_whole(b, "best_epoch", t->result.best_epoch);
    dl_puts(b, "}");
}

static void print_json(const dl_console *out, const dl_sweep_file *f, const dlr_trials *all) {
    dl_buf b = {0};
    const dlr_trial *best = f->metric ? dlr_trials_best(all, f->maximize) : NULL;
    dl_puts(&b, "{");
    put_text(&b, "sweep", all->dir);
    put_text(&b, "method", f->method->name);
    put_text(&b, "metric", f->metric);
    put_text(&b, "goal", f->maximize ? "maximize" : "minimize");
    put_number(&b, "trials", f->trials >= 0, (double)f->trials);
    put_number(&b, "best", best != NULL, best ? (double)best->number : 0);
    dlr_json_put_key(&b, "taken");
    dl_puts(&b, "[");
    for (int i = 0; i < all->list.n; i++) {
        if (i) dl_puts(&b, ", ");
        put_trial(&b, &all->list.at[i]);
    }
    dl_puts(&b, "]}\n");
    dl_console_puts(out, b.at);
    dl_buf_free(&b);
}

bool dl_sweep_print(const dl_console *out, dl_arena *arena, const char *dir, const dl_sweep_file *f,
                    bool json, dl_error *err) {
    dlr_trials all;
    if (!dlr_trials_read(arena, dir, f->metric, f->maximize, &all, err)) return false;
    if (json)
        print_json(out, f, &all);
    else
        print_head(out, f, &all), print_table(out, arena, f, &all);
    return true;
}
