/* Rules by which trials end early: `early_terminate` of a sweep's file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/yaml/sweep_private.h"

struct dl_sweep_stop_rule {
    const char *name;
    int n_keys;
    const char *const *keys; /* that it takes, with the word `type` */
    bool (*read)(dl_arena *arena, dl_sweep_stop *s, const dl_yaml *v, dl_error *err);
    bool (*stops)(const dl_sweep_stop *s, const dl_sweep_curve *own, int n,
                  const dl_sweep_curve *others);
};

static double least_of(const dl_sweep_curve *c, int64_t n) {
    double least = INFINITY;
    for (int64_t i = 0; i < n; i++) least = fmin(least, c->at[i]); /* fmin passes over NaN */
    return least;
}

/* ---- hyperband ---- */

enum { DEFAULT_ETA = 3, MOST_EVALUATIONS = 1 << 30 };

/* From min_iter up, or from max_iter down s times. */
static bool read_hyperband(dl_arena *arena, dl_sweep_stop *s, const dl_yaml *v, dl_error *err) {
    int64_t from, to, brackets;
    if (!dl_sweep_whole(arena, v, "min_iter", 1, 0, &from, err) ||
        !dl_sweep_whole(arena, v, "max_iter", 1, 0, &to, err) ||
        !dl_sweep_whole(arena, v, "s", 1, 0, &brackets, err) ||
        !dl_sweep_whole(arena, v, "eta", 2, DEFAULT_ETA, &s->eta, err))
        return false;
    if ((from > 0) == (to > 0) || (to > 0) != (brackets > 0))
        return dl_yaml_fail(err, v->place,
                            "hyperband takes min_iter, or max_iter and s: the first comparison, or "
                            "the longest trial and how many comparisons there are");
    if (from)
        for (; s->n < DL_SWEEP_MOST_RUNGS && from < MOST_EVALUATIONS; from *= s->eta)
            s->rungs[s->n++] = from;
    for (int64_t k = 0; to && k < brackets && to / s->eta > 0 && s->n < DL_SWEEP_MOST_RUNGS; k++) {
        to /= s->eta;
        memmove(s->rungs + 1, s->rungs, (size_t)s->n++ * sizeof *s->rungs);
        s->rungs[0] = to;
    }
    return s->n > 0 ||
           dl_yaml_fail(err, v->place, "max_iter is below eta: no comparison comes before the end");
}

/* A trial goes on from a rung where it is among the best 1/eta of all that have come there: the
 * asynchronous form (Li et al. 2020), which waits for no other trial. */
static bool hyperband_stops(const dl_sweep_stop *s, const dl_sweep_curve *own, int n,
                            const dl_sweep_curve *others) {
    for (int r = 0; r < s->n && own->n >= s->rungs[r]; r++) {
        double mine = least_of(own, s->rungs[r]);
        int64_t better = 0, all = 1;
        for (int i = 0; i < n; i++)
            if (others[i].n >= s->rungs[r])
                all++, better += least_of(&others[i], s->rungs[r]) < mine;
        if (better >= (all + s->eta - 1) / s->eta) return true;
    }
    return false;
}

/* ---- median ---- */

static bool read_median(dl_arena *arena, dl_sweep_stop *s, const dl_yaml *v, dl_error *err) {
    enum { TRIALS = 5 };
    return dl_sweep_whole(arena, v, "min_iter", 1, 1, &s->least, err) &&
           dl_sweep_whole(arena, v, "min_trials", 1, TRIALS, &s->trials, err);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A trial ends whose best value is worse than the median of the others' means, each over as many
 * evaluations (Golovin et al. 2017). */
static bool median_stops(const dl_sweep_stop *s, const dl_sweep_curve *own, int n,
                         const dl_sweep_curve *others) {
    dl_arena *arena = dl_arena_new(NULL);
    double *means = DL_NEWS(arena, double, n + 1);
    int seen = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        if (others[i].n < own->n) continue;
        for (int k = 0; k < own->n; k++) sum += others[i].at[k];
        means[seen++] = isnan(sum) ? INFINITY : sum / own->n;
    }
    qsort(means, (size_t)seen, sizeof *means, by_size);
    bool stops = own->n >= s->least && seen >= s->trials &&
                 least_of(own, own->n) > (means[seen / 2] + means[(seen - 1) / 2]) / 2;
    dl_arena_free(arena);
    return stops;
}

/* ---- the rules ---- */

static const char *const hyperband_keys[] = {"type", "min_iter", "max_iter", "s", "eta"},
                         *const median_keys[] = {"type", "min_iter", "min_trials"};
static const dl_sweep_stop_rule rules[] = {
    {"hyperband", sizeof hyperband_keys / sizeof *hyperband_keys, hyperband_keys, read_hyperband,
     hyperband_stops},
    {"median", sizeof median_keys / sizeof *median_keys, median_keys, read_median, median_stops},
};
enum { N_RULES = sizeof rules / sizeof *rules };

bool dl_sweep_stops(const dl_sweep_stop *s, const dl_sweep_curve *own, int n,
                    const dl_sweep_curve *others) {
    return s->rule && own->n > 0 && s->rule->stops(s, own, n, others);
}

const char *dl_sweep_stop_name(const dl_sweep_stop *s) { return s->rule ? s->rule->name : "none"; }

bool dl_sweep_read_stop(dl_arena *arena, dl_sweep_file *f, const dl_yaml *v, dl_error *err) {
    const char *names[N_RULES];
    for (int i = 0; i < N_RULES; i++) names[i] = rules[i].name;
    if (!v) return true;
    const dl_yaml *type = v->kind == DL_YAML_MAP ? dl_yaml_get(v, "type") : NULL;
    if (!type)
        return dl_yaml_fail(err, v->place,
                            "early_terminate must be a map with a type, {type: hyperband, "
                            "min_iter: 3}, not %s",
                            dl_yaml_show(arena, v));
    int k = dl_sweep_word(arena, "type", type, N_RULES, names, err);
    if (k < 0) return false;
    f->stop.rule = &rules[k];
    return dl_sweep_check_keys(arena, rules[k].name, v, rules[k].n_keys, rules[k].keys, err) &&
           rules[k].read(arena, &f->stop, v, err);
}
