/* A sweep and what its runs have in common: where it lies, and whether a command line's runs can
 * be its. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "ir/base/tags.h"
#include "runtime/sweep/sweep.h"

const dl_option *dl_sweep_options(dl_arena *arena, const dl_option *own, const dl_option *of_runs) {
    int n = 0;
    while (own[n].name) n++;
    const dl_option *end = of_runs;
    while (end->name) end++;
    dl_option *all = DL_NEWS(arena, dl_option, n + (end - of_runs) + 1);
    memcpy(all, own, (size_t)n * sizeof *all);
    for (const dl_option *o = of_runs; o->name; o++) {
        int k = 0;
        while (k < n && strcmp(all[k].name, o->name) != 0) k++;
        if (k == n) all[n++] = *o;
    }
    return all;
}

const char *dl_sweep_dir(dl_arena *arena, const char *id, int argc, char *const *argv,
                         const dl_option *options, dl_error *err) {
    size_t n = strlen(id);
    while (n > 1 && id[n - 1] == '/') n--;
    if (strchr(id, '/')) /* with a slash still, so that it stays a directory */
        return dl_format(arena, "%s%.*s", memchr(id, '/', n) ? "" : "./", (int)n, id);
    if (!dl_is_file_name(id))
        return dl_fail(err, DL_USAGE, "'%.80s' is no sweep's name: it names a folder", id), NULL;
    dl_config *c = dl_config_open(arena, argc, argv, options, err);
    if (!c || !dl_config_take_model(c, err) || !dl_config_load(c, err) ||
        !dl_config_check_written(c, DL_KEY_expdir, err))
        return NULL;
    return dl_format(arena, "%s/sweeps/%s", dl_config_str(c, DL_KEY_expdir), id);
}

const dl_sweep_file *dl_sweep_open(dl_arena *arena, const char *dir, dl_error *err) {
    const char *path = dl_format(arena, "%s/sweep.yaml", dir);
    if (access(path, F_OK) != 0)
        return dl_fail(
                   err, DL_USAGE,
                   "there is no sweep in %.300s; `dlrun sweep FILE.yaml` makes one and says where "
                   "(--expdir as it had)",
                   dir),
               NULL;
    return dl_sweep_read(arena, path, err);
}

/* ---- the metric ---- */

/* Everything that such a run records at its epochs, in words; and whether the metric is among it.
 */
static bool is_recorded(dl_arena *arena, const dl_session *s, const char *metric,
                        const char **all) {
    typedef DL_ARRAY(const char *) strings;
    strings names = {0};
    const dlr_log_format *style = dlr_record_find(dl_config_str(s->config, DL_KEY_log_format));
    for (int i = 0; i < DLR_N_VALUES; i++)
        if (style->tags[i]) dl_push(arena, &names, style->tags[i]);
    const dl_graph *g = s->module->graphs.at[0];
    for (int i = 0; i < g->results.n; i++) {
        const char *name = g->results.at[i].name;
        if (g->results.at[i].role != DL_RESULT_METRIC || dl_tag_find(name)) continue;
        dl_push(arena, &names, dl_format(arena, "%s/train", name));
        dl_push(arena, &names, dl_format(arena, "%s/valid", name));
    }
    dl_buf b = {0};
    bool found = false;
    for (int i = 0; i < names.n; i++) {
        found |= strcmp(names.at[i], metric) == 0;
        dl_putf(&b, "%s%s", i ? ", " : "", names.at[i]);
    }
    const char *near = found ? NULL : dl_nearest(metric, names.at, names.n);
    *all = dl_format(arena, "%s%s%s; they record %.500s", near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "", b.at ? b.at : "nothing");
    dl_buf_free(&b);
    return found;
}

static bool check_metric(dl_arena *arena, const dl_session *s, const dl_sweep_file *f,
                         dl_error *err) {
    const char *all;
    return !f->metric || is_recorded(arena, s, f->metric, &all) ||
           dl_yaml_fail(err, f->metric_place, "runs of %s record no %s%s", s->model_path,
                        dl_yaml_quote(arena, f->metric), all);
}

/* ---- command lines ---- */

bool dl_sweep_print_help(const dl_console *out, const char *usage, const dl_option *own,
                         const dl_config *c, dl_error *err) {
    dl_buf b = {0};
    dl_puts(&b, usage);
    bool ok = dl_config_put_help(&b, own, c, dl_config_option(c, "help"), err);
    if (ok) dl_console_puts(out, b.at);
    dl_buf_free(&b);
    return ok;
}

void dl_sweep_drop(int *argc, char **argv, const char *name, bool has_value) {
    size_t n = strlen(name);
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        const char *word = argv[i];
        bool is_it = strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, n) == 0;
        if (is_it && word[2 + n] == 0)
            i += has_value;
        else if (!is_it || !has_value || word[2 + n] != '=')
            argv[kept++] = argv[i];
    }
    argv[ *argc = kept] = NULL;
}

/* ---- the runs ---- */

/* The prefix of trials' names: CONFIG_RUN_ as preset tracked has it, in letters
 * that mean nothing in a path of a configuration. */
static const char *prefix_of(dl_arena *arena, const dl_config *c) {
    char *prefix = dl_format(arena, "%.20s_%.20s_", c->name, dl_config_str(c, DL_KEY_run_num));
    for (char *s = prefix; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("._+-", *s)) *s = '-';
    return prefix;
}

bool dl_sweep_fits(dl_arena *arena, const dl_sweep_file *file, int ranks, int argc,
                   char *const *argv, const dl_option *options, const char **prefix,
                   const dl_console *out, dl_error *err) {
    dl_arena *own = dl_arena_new(arena);
    dl_config *c = dl_config_open(own, argc, argv, options, err);
    dl_buf faults = {0};
    dl_session *s =
        c && dl_config_take_model(c, err) ? dl_session_open(own, c, ranks, &faults, err) : NULL;
    if (!s) dl_console_diagnostics(out, faults.at);
    dl_buf_free(&faults);
    bool ok = s != NULL;
    if (ok && dl_config_option(c, "dry_run"))
        ok = dl_fail(err, DL_USAGE,
                     "a trial of a sweep is there to be trained, and --dry_run trains none");
    static const dl_key own_keys[] = {DL_KEY_resume, DL_KEY_run_dir, DL_KEY_replay};
    for (size_t i = 0; ok && i < sizeof own_keys / sizeof *own_keys; i++) {
        const char *said = dl_config_said(c, dl_key_name(own_keys[i]));
        if (said)
            ok = dl_fail(
                err, DL_USAGE,
                "%.200s: a sweep says where its trials are kept, and that they go on there", said);
    }
    ok = ok && dl_sweep_check(file, c, err) && check_metric(own, s, file, err);
    if (ok && prefix) *prefix = prefix_of(arena, c);
    dl_session_close(s);
    dl_arena_free(own);
    return ok;
}

/* For a method that learns: values and results of the trials so far. */
static dl_sweep_history history_of(dl_arena *arena, const dl_sweep_file *f,
                                   const dlr_trials *past) {
    dl_sweep_past *at = DL_NEWS(arena, dl_sweep_past, past->list.n + 1);
    int n = 0;
    for (int i = 0; i < past->list.n; i++) {
        const dlr_trial *t = &past->list.at[i];
        dl_error none = {0};
        const dl_yaml *values = dl_yaml_read(arena, t->values, strlen(t->values), t->name, &none);
        bool has = dlr_trial_has_result(t) && t->result.any;
        if (values)
            at[n++] = (dl_sweep_past){values, has ? (f->maximize ? -1 : 1) * t->result.best : NAN};
    }
    return (dl_sweep_history){n, at};
}

static void make(const void *of, dl_arena *arena, const dlr_trials *past, int64_t number,
                 const char *given, const char **name, const char **values) {
    const dl_sweep_file *f = of;
    const dl_sweep_history history =
        f->method->learns ? history_of(arena, f, past) : (dl_sweep_history){0};
    dl_error none = {0}; /* dl_sweep_give has read them */
    const dl_yaml *map = given ? dl_yaml_read(arena, given, strlen(given), f->path, &none)
                               : dl_sweep_values(arena, f, number, &history);
    dl_buf b = {0};
    dl_yaml_put_json(&b, map);
    *name = dl_sweep_name(arena, f, map), *values = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
}

dlr_trial_maker dl_sweep_maker(const dl_sweep_file *file, const char *prefix) {
    return (dlr_trial_maker){.trials = file->trials, .make = make, .of = file, .prefix = prefix};
}
