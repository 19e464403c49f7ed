/* A run that is a trial of a sweep: taken by rank 0, with the same values on every rank. */
#include "runtime/formats/json.h"
#include "runtime/formats/log.h"
#include "runtime/sweep/sweep.h"

/* Text from rank 0 to all: its length, then its bytes, as many as fill whole numbers. In the arena.
 */
static const char *share_text(dl_run_job *p, const char *text, dl_error *err) {
    int64_t n = text ? (int64_t)strlen(text) : 0;
    if (!p->comm) return text;
    dlr_collective c = {.kind = DLR_BROADCAST,
                        .type = DL_I64,
                        .outer = 1,
                        .count = 1,
                        .from = &n,
                        .to = &n,
                        .what = "broadcast of a trial's length"};
    if (!dlr_comm_all(p->comm, &c, err)) return NULL;
    int64_t words = n / (int64_t)sizeof(int64_t) + 1; /* with a NUL after the text */
    int64_t *all = DL_NEWS(p->arena, int64_t, words);
    if (text) memcpy(all, text, (size_t)n);
    c.count = words, c.from = c.to = all, c.what = "broadcast of a trial's values";
    return dlr_comm_all(p->comm, &c, err) ? (const char *)all : NULL;
}

/* Where the trial is kept, whether a rule may end it, and its values. */
static const char *text_of(dl_arena *arena, const char *dir, const dlr_trial *t, bool stops) {
    dl_buf b = {0};
    dl_puts(&b, "{");
    dlr_json_put_key(&b, "dir");
    dlr_json_put_string(&b, dir);
    dlr_json_put_key(&b, "run");
    dlr_json_put_string(&b, t->run);
    dl_putf(&b, ", \"stops\": %s", stops ? "true" : "false");
    dlr_json_put_key(&b, "values");
    dl_putf(&b, "%s}", t->values);
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

/* A path as a value of the command line, where $NAME would be a variable. */
static const char *literal(dl_arena *arena, const char *path) {
    dl_buf b = {0};
    for (; *path; path++) dl_putn(&b, "$", *path == '$'), dl_putn(&b, path, 1);
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

static bool give(dl_run_job *p, const dl_yaml *map, dl_error *err) {
    const char *dir = dl_yaml_get(map, "dir")->text, *run = dl_yaml_get(map, "run")->text;
    return dl_config_take_values(p->config, dl_yaml_get(map, "values"), err) &&
           (dl_config_is_given(p->config, DL_KEY_wandb_name) ||
            dl_config_set(p->config, DL_KEY_wandb_name, literal(p->arena, run), err)) &&
           dl_config_set(p->config, DL_KEY_expdir, literal(p->arena, dir), err) &&
           dl_config_set(p->config, DL_KEY_run_dir, dl_format(p->arena, "{expdir}/%s", run), err) &&
           dl_config_set(p->config, DL_KEY_resume, "true", err);
}

static bool take(dl_sweep_run *s, dl_run_job *p, const char *id, const dl_option *options,
                 const char **text, dl_error *err) {
    const char *prefix;
    *text = "";
    s->dir = dl_sweep_dir(p->arena, id, p->argc, p->argv, options, err);
    s->file = s->dir ? dl_sweep_open(p->arena, s->dir, err) : NULL;
    if (!s->file || !dl_sweep_fits(p->arena, s->file, p->world.size, p->argc, p->argv, options,
                                   &prefix, p->out, err))
        return false;
    dlr_trial_maker maker = dl_sweep_maker(s->file, prefix);
    if (!dlr_trials_take(p->arena, s->dir, &maker, false, &s->trial, &p->dir, err)) return false;
    if (s->trial.number >= 0) *text = text_of(p->arena, s->dir, &s->trial, s->file->stop.rule);
    return true;
}

/* ---- early ends ---- */

/* Whether the sweep's rule ends the trial, by the points that all trials have recorded. */
static bool is_stopped(dl_arena *arena, const dl_sweep_run *s, bool *stops, int *evaluations,
                       dl_error *err) {
    const dl_sweep_file *f = s->file;
    dlr_trials all;
    if (!dlr_trials_read(arena, s->dir, f->metric, f->maximize, &all, err)) return false;
    dl_sweep_curve own = {0}, *others = DL_NEWS(arena, dl_sweep_curve, all.list.n + 1);
    int n = 0;
    for (int i = 0; i < all.list.n; i++) {
        const dlr_trial *t = &all.list.at[i];
        const char *path = dl_format(arena, "%s/%s/metrics.jsonl", s->dir, t->run);
        dl_sweep_curve *curve = t->number == s->trial.number ? &own : &others[n++];
        if (!dlr_trial_curve(arena, path, f->metric, f->maximize, curve, err)) return false;
    }
    *stops = dl_sweep_stops(&f->stop, &own, n, others), *evaluations = own.n;
    return true;
}

/* Other trials' files that cannot be read are no reason to end this one. */
static void judge(void *context, bool *ends) {
    dl_sweep_run *s = context;
    dl_arena *arena = dl_arena_new(NULL);
    dl_error why = {0};
    int evaluations;
    if (!is_stopped(arena, s, ends, &evaluations, &why))
        dlr_log_warning("the trial goes on, uncompared: %s", why.message);
    else if (*ends)
        dlr_log_info("stopping early: %s ends the trial after %d evaluations",
                     dl_sweep_stop_name(&s->file->stop), evaluations);
    s->stopped = *ends;
    dl_arena_free(arena);
}

/* Every rank has the judge, which rank 0 asks; the others read no file. */
static void set_judge(dl_sweep_run *s, dl_run_job *p, bool has_rule) {
    s->judge = (dlr_stop_judge){judge, s};
    if (has_rule) p->judge = &s->judge;
}

bool dl_sweep_take(dl_sweep_run *s, dl_run_job *p, const char *id, const dl_option *options,
                   dl_error *err) {
    const char *text = NULL;
    *s = (dl_sweep_run){.trial.number = -1};
    if (dl_job_is_rank0(p) && !take(s, p, id, options, &text, err)) return false;
    text = share_text(p, text, err);
    if (!text) return false;
    if (!*text) {
        if (dl_job_is_rank0(p)) dlr_log_info("sweep %s: no trial is left to take", s->dir);
        return true;
    }
    const char *what = dl_job_is_rank0(p) ? dl_format(p->arena, "trial %lld of %s",
                                                      (long long)s->trial.number, s->dir)
                                          : dl_format(p->arena, "the trial of sweep %s", id);
    const dl_yaml *map = dl_yaml_read(p->arena, text, strlen(text), what, err);
    if (!map || !give(p, map, err)) return false;
    s->dir = dl_yaml_get(map, "dir")->text;
    set_judge(s, p, dl_yaml_get(map, "stops")->truth);
    if (!dl_job_is_rank0(p)) s->trial.number = 0; /* one there is; rank 0 knows which */
    p->trial = dl_yaml_get(map, "values");
    p->trial_note =
        dl_format(p->arena, "HPO sweep %s, trial cfg %s", s->dir, dl_yaml_get(map, "run")->text);
    p->resume_command = dl_format(p->arena, "`dlrun agent %s`, or the same command,", s->dir);
    return true;
}

bool dl_sweep_end(const dl_sweep_run *s, dl_run_job *p, bool ok, const dl_error *how,
                  dl_error *err) {
    if (s->trial.number < 0 || !dl_job_is_rank0(p)) return true;
    dlr_trial_result result = {0};
    int status = ok ? DL_OK : how->code ? (int)how->code : DL_INTERNAL;
    const char *metrics = dl_format(p->arena, "%s/%s/metrics.jsonl", s->dir, s->trial.run);
    int64_t ended;
    if (!dlr_trial_measure(metrics, s->file->metric, s->file->maximize, &result, err) ||
        !dlr_trials_end(s->dir, &s->trial, status, s->stopped, ok ? NULL : how->message, &result,
                        &ended, err))
        return false;
    return ended != s->file->trials ||
           dl_sweep_print(p->out, p->arena, s->dir, s->file, false, err);
}
