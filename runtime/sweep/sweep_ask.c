/* `dlrun sweep --ask`, `--tell` and `--add`: for programs that train a sweep's trials by
 * themselves, and for those that choose the values, such as Optuna and Ray. */
#include "runtime/formats/json.h"
#include "runtime/sweep/sweep.h"

static void print(const dl_sweep_access *s, const dlr_trial *t) {
    bool any = t->number >= 0;
    dl_buf b = {0};
    if (!s->json)
        any ? dl_putf(&b, "trial %lld: %s\n", (long long)t->number, t->values)
            : dl_puts(&b, "no trial is left to take\n");
    else if (any) {
        dl_putf(&b, "{\"trial\": %lld", (long long)t->number);
        dlr_json_put_key(&b, "name");
        dlr_json_put_string(&b, t->name);
        dlr_json_put_key(&b, "run");
        dlr_json_put_string(&b, dl_format(s->arena, "%s/%s", s->dir, t->run));
        dlr_json_put_key(&b, "values");
        dl_putf(&b, "%s}\n", t->values);
    } else
        dl_puts(&b, "{\"trial\": null}\n");
    dl_console_puts(s->out, b.at);
    dl_buf_free(&b);
}

/* A trial of `file`, whose parameters may have given values, recorded in that state. */
static bool add(const dl_sweep_access *s, const dl_sweep_file *file, dlr_trial_state state,
                const char *values, dl_error *err) {
    int ranks, argc;
    char **argv;
    const char *prefix;
    dlr_trial t;
    if (!dl_sweep_arguments(s->arena, s->dir, &ranks, &argc, &argv, err) ||
        !dl_sweep_fits(s->arena, file, ranks, argc, argv, s->options, &prefix, s->out, err))
        return false;
    dlr_trial_maker maker = dl_sweep_maker(s->file, prefix);
    if (!dlr_trials_add(s->arena, s->dir, &maker, state, values, &t, err)) return false;
    print(s, &t);
    return true;
}

bool dl_sweep_ask(const dl_sweep_access *s, dl_error *err) {
    return add(s, s->file, DLR_TRIAL_ASKED, NULL, err);
}

/* The sweep's file with each parameter at the value given for it. */
static bool give(const dl_sweep_access *s, const dl_yaml *map, dl_sweep_file *fixed,
                 dl_error *err) {
    const dl_sweep_file *f = s->file;
    dl_sweep_parameter *all = DL_NEWS(s->arena, dl_sweep_parameter, f->n);
    const dl_yaml **values = DL_NEWS(s->arena, const dl_yaml *, f->n);
    for (int i = 0; i < f->n; i++) {
        values[i] = dl_yaml_get(map, f->parameters[i].name);
        if (!values[i])
            return dl_fail(err, DL_USAGE, "--values lacks %s, a parameter of %.300s",
                           dl_yaml_quote(s->arena, f->parameters[i].name), f->path);
        all[i] = (dl_sweep_parameter){.name = f->parameters[i].name,
                                      .place = values[i]->place,
                                      .draw = DL_DRAW_CONSTANT,
                                      .n = 1,
                                      .values = &values[i]};
    }
    for (int i = 0; i < map->entries.n; i++) {
        bool known = false;
        for (int k = 0; k < f->n; k++)
            known |= strcmp(f->parameters[k].name, map->entries.at[i].key) == 0;
        if (!known)
            return dl_fail(err, DL_USAGE, "--values has %s, which is no parameter of %.300s",
                           dl_yaml_quote(s->arena, map->entries.at[i].key), f->path);
    }
    *fixed = *f;
    fixed->parameters = all, fixed->method = &dl_sweep_methods[0];
    return true;
}

bool dl_sweep_add(const dl_sweep_access *s, const char *values, dl_error *err) {
    dl_sweep_file fixed;
    if (s->file->method->is_grid)
        return dl_fail(err, DL_USAGE,
                       "%.300s is a grid, whose trials are its combinations: --add needs method "
                       "random or bayes",
                       s->file->path);
    const dl_yaml *map = dl_yaml_read_argument(s->arena, values,
                                               dl_format(s->arena, "--values=%.200s", values), err);
    if (!map) return false;
    if (map->kind != DL_YAML_MAP)
        return dl_fail(err, DL_USAGE,
                       "--values must be a map of the sweep's parameters, "
                       "'{\"lr\": 0.001}'");
    if (!give(s, map, &fixed, err)) return false;
    dl_buf b = {0};
    dl_yaml_put_json(&b, dl_sweep_values(s->arena, &fixed, 0, NULL));
    bool ok = add(s, &fixed, DLR_TRIAL_RETURNED, b.at, err);
    dl_buf_free(&b);
    return ok;
}

bool dl_sweep_tell(const dl_sweep_access *s, int64_t number, const double *metric, dl_error *err) {
    dlr_trials all;
    dlr_trial_result result = {0};
    int64_t ended;
    if (!dlr_trials_read(s->arena, s->dir, s->file->metric, s->file->maximize, &all, err))
        return false;
    const dlr_trial *t = dlr_trials_find(&all, number);
    if (!t || t->state != DLR_TRIAL_ASKED)
        return dl_fail(err, DL_USAGE, "trial %lld of %.300s %s; --ask gives a trial to tell about",
                       (long long)number, s->dir,
                       t ? "was not asked for, or is over" : "is unknown");
    if (metric) result.any = true, result.last = result.best = *metric;
    return dlr_trials_end(s->dir, t, metric ? DL_OK : DL_NUMERIC, false,
                          metric ? NULL : "told to have failed", &result, &ended, err);
}
