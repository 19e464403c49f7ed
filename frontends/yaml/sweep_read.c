/* Reads and checks the file of a sweep. */
#include <math.h>
#include <stdlib.h>

#include "frontends/yaml/config_private.h"
#include "frontends/yaml/sweep_file.h"

const char *const dl_sweep_methods[] = {"grid", "random", NULL};
const char *const dl_sweep_draws[DL_N_DRAWS] = {
    [DL_DRAW_CONSTANT] = "constant",
    [DL_DRAW_CATEGORICAL] = "categorical",
    [DL_DRAW_INT_UNIFORM] = "int_uniform",
    [DL_DRAW_UNIFORM] = "uniform",
    [DL_DRAW_Q_UNIFORM] = "q_uniform",
    [DL_DRAW_LOG_UNIFORM_VALUES] = "log_uniform_values",
    [DL_DRAW_Q_LOG_UNIFORM_VALUES] = "q_log_uniform_values",
    [DL_DRAW_NORMAL] = "normal",
};

/* ---- words ---- */

/* The words as a list, "a, b, c". */
static const char *list(dl_arena *arena, int n, const char *const *names) {
    dl_buf b = {0};
    for (int i = 0; i < n; i++) dl_putf(&b, "%s%s", i ? ", " : "", names[i]);
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

static int find(const char *name, int n, const char *const *names) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

static const char *nearest(dl_arena *arena, const char *name, int n, const char *const *names) {
    const char *near = dl_nearest(name, names, n);
    return near ? dl_format(arena, "; did you mean '%s'?", near) : "";
}

/* The index of a word among those allowed; -1 with an error at its place. */
static int word_of(dl_arena *arena, const char *what, const dl_yaml *v, int n,
                   const char *const *names, dl_error *err) {
    int k = v->kind == DL_YAML_STRING ? find(v->text, n, names) : -1;
    if (k < 0)
        dl_yaml_fail(err, v->place, "%s must be one of %s, not %s%s", what, list(arena, n, names),
                     dl_yaml_show(arena, v),
                     v->kind == DL_YAML_STRING ? nearest(arena, v->text, n, names) : "");
    return k;
}

/* Checks that every key of the map is one of these. */
static bool check_keys(dl_arena *arena, const char *what, const dl_yaml *map, int n,
                       const char *const *names, dl_error *err) {
    for (int i = 0; i < map->entries.n; i++) {
        dl_yaml_entry e = map->entries.at[i];
        if (find(e.key, n, names) < 0)
            return dl_yaml_fail(err, e.place, "unknown key %s in %s%s; it can have %s",
                                dl_yaml_quote(arena, e.key), what, nearest(arena, e.key, n, names),
                                list(arena, n, names));
    }
    return true;
}

static bool is_number(const dl_yaml *v) {
    return (v->kind == DL_YAML_INT || v->kind == DL_YAML_FLOAT) && isfinite(v->number);
}

/* ---- a parameter ---- */

enum { MIN, MAX, MU, SIGMA, Q, VALUE, VALUES, PROBABILITIES, DISTRIBUTION, N_WORDS };
static const char *const words[N_WORDS] = {
    "min", "max", "mu", "sigma", "q", "value", "values", "probabilities", "distribution"};

/* The keys of each distribution: all are required, no others allowed; probabilities may be
 * omitted. */
static const struct {
    const char *with;
    bool has[N_WORDS];
} given[DL_N_DRAWS] = {
    [DL_DRAW_CONSTANT] = {"value", {[VALUE] = true}},
    [DL_DRAW_CATEGORICAL] = {"values (and probabilities)",
                             {[VALUES] = true, [PROBABILITIES] = true}},
    [DL_DRAW_INT_UNIFORM] = {"min and max", {[MIN] = true, [MAX] = true}},
    [DL_DRAW_UNIFORM] = {"min and max", {[MIN] = true, [MAX] = true}},
    [DL_DRAW_Q_UNIFORM] = {"min, max and q", {[MIN] = true, [MAX] = true, [Q] = true}},
    [DL_DRAW_LOG_UNIFORM_VALUES] = {"min and max", {[MIN] = true, [MAX] = true}},
    [DL_DRAW_Q_LOG_UNIFORM_VALUES] = {"min, max and q", {[MIN] = true, [MAX] = true, [Q] = true}},
    [DL_DRAW_NORMAL] = {"mu and sigma", {[MU] = true, [SIGMA] = true}},
};

typedef struct {
    dl_arena *arena;
    const char *quoted; /* the parameter's name for messages */
    const dl_yaml *of[N_WORDS];
    dl_yaml_place place;
} said;

/* The distribution if none is named; -1: the given keys match none. */
static int usual_draw(const said *s) {
    if (s->of[VALUE]) return DL_DRAW_CONSTANT;
    if (s->of[VALUES]) return DL_DRAW_CATEGORICAL;
    if (s->of[MU] || s->of[SIGMA]) return DL_DRAW_NORMAL;
    if (!s->of[MIN] || !s->of[MAX]) return -1;
    if (s->of[Q]) return DL_DRAW_Q_UNIFORM;
    bool whole = s->of[MIN]->kind == DL_YAML_INT && s->of[MAX]->kind == DL_YAML_INT;
    return whole ? DL_DRAW_INT_UNIFORM : DL_DRAW_UNIFORM;
}

static bool check_given(const said *s, int draw, dl_error *err) {
    for (int k = 0; k < DISTRIBUTION; k++) {
        if (!s->of[k] && given[draw].has[k] && k != PROBABILITIES)
            return dl_yaml_fail(err, s->place, "%s is %s and lacks %s: that takes %s", s->quoted,
                                dl_sweep_draws[draw], words[k], given[draw].with);
        if (s->of[k] && !given[draw].has[k])
            return dl_yaml_fail(err, s->of[k]->place, "%s is %s, which takes %s, and has %s, too",
                                s->quoted, dl_sweep_draws[draw], given[draw].with, words[k]);
        if (s->of[k] && k <= Q && !is_number(s->of[k]))
            return dl_yaml_fail(err, s->of[k]->place, "%s of %s must be a number, not %s", words[k],
                                s->quoted, dl_yaml_show(s->arena, s->of[k]));
    }
    return true;
}

static bool take_shares(const said *s, dl_sweep_parameter *p, dl_error *err) {
    const dl_yaml *v = s->of[PROBABILITIES];
    if (!v) return true;
    if (v->kind != DL_YAML_LIST || v->items.n != p->n)
        return dl_yaml_fail(err, v->place,
                            "probabilities of %s must be a list of %d numbers, one a value",
                            s->quoted, p->n);
    double *shares = DL_NEWS(s->arena, double, p->n), sum = 0;
    for (int i = 0; i < p->n; i++) {
        const dl_yaml *x = v->items.at[i];
        if (!is_number(x) || x->number < 0)
            return dl_yaml_fail(err, x->place, "a probability is a number of at least 0, not %s",
                                dl_yaml_show(s->arena, x));
        sum += shares[i] = x->number;
    }
    p->shares = shares;
    enum { PARTS = 1000000 }; /* the sum of inexact decimals may be off by 1 in so many */
    return fabs(sum - 1) * PARTS <= 1 ||
           dl_yaml_fail(err, v->place, "probabilities of %s add up to %g, not to 1", s->quoted,
                        sum);
}

typedef struct {
    const char *text;
    int number;
} shown;

static int compare_shown(const void *a, const void *b) {
    const shown *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

int dl_sweep_twice(dl_arena *arena, int n, const dl_yaml *const *values) {
    shown *all = DL_NEWS(arena, shown, n);
    for (int i = 0; i < n; i++) {
        dl_buf b = {0};
        dl_yaml_put(&b, values[i]);
        all[i] = (shown){dl_strndup(arena, b.at, b.n), i};
        dl_buf_free(&b);
    }
    qsort(all, (size_t)n, sizeof *all, compare_shown);
    for (int i = 1; i < n; i++)
        if (strcmp(all[i - 1].text, all[i].text) == 0) return all[i].number;
    return -1;
}

static bool take_values(const said *s, dl_sweep_parameter *p, dl_error *err) {
    const dl_yaml *v = s->of[VALUES];
    if (v->kind != DL_YAML_LIST || v->items.n == 0)
        return dl_yaml_fail(err, v->place, "values of %s must be a list of at least one, not %s",
                            s->quoted, dl_yaml_show(s->arena, v));
    p->n = v->items.n, p->values = v->items.at;
    int twice = dl_sweep_twice(s->arena, p->n, p->values);
    if (twice >= 0)
        return dl_yaml_fail(err, p->values[twice]->place, "values of %s have %s twice", s->quoted,
                            dl_yaml_show(s->arena, p->values[twice]));
    return take_shares(s, p, err);
}

/* All whole numbers of a range, for a grid. */
static bool list_values(const said *s, dl_sweep_parameter *p, dl_error *err) {
    if (p->high - p->low >= DL_SWEEP_MOST)
        return dl_yaml_fail(err, p->low_place, "%s has more than %d values for a grid", s->quoted,
                            DL_SWEEP_MOST);
    p->n = (int)(p->high - p->low) + 1;
    const dl_yaml **all = DL_NEWS(s->arena, const dl_yaml *, p->n);
    for (int i = 0; i < p->n; i++)
        all[i] = dl_yaml_plain(s->arena, dl_format(s->arena, "%.0f", p->low + i), p->low_place);
    p->values = all;
    return true;
}

static bool take_range(const said *s, dl_sweep_parameter *p, dl_error *err) {
    bool normal = p->draw == DL_DRAW_NORMAL;
    const dl_yaml *low = s->of[normal ? MU : MIN], *high = s->of[normal ? SIGMA : MAX],
                  *q = s->of[Q];
    p->low = low->number, p->high = high->number, p->step = q ? q->number : 0;
    p->low_place = low->place, p->high_place = high->place;
    p->whole = q && low->kind == DL_YAML_INT && high->kind == DL_YAML_INT && q->kind == DL_YAML_INT;
    bool logarithm =
             p->draw == DL_DRAW_LOG_UNIFORM_VALUES || p->draw == DL_DRAW_Q_LOG_UNIFORM_VALUES,
         of_int = p->draw == DL_DRAW_INT_UNIFORM;
    if (of_int && (low->kind != DL_YAML_INT || high->kind != DL_YAML_INT))
        return dl_yaml_fail(err, s->place, "%s is int_uniform: min and max must be integers",
                            s->quoted);
    if (normal && !(p->high > 0))
        return dl_yaml_fail(err, high->place, "sigma of %s must be above 0", s->quoted);
    if (!normal && (of_int ? p->low > p->high : p->low >= p->high))
        return dl_yaml_fail(err, low->place, "min of %s, %g, must be below max, %g", s->quoted,
                            p->low, p->high);
    if (of_int && (fabs(p->low) > 0x1p52 || fabs(p->high) > 0x1p52))
        return dl_yaml_fail(err, low->place, "%s must lie within 2^52 of 0", s->quoted);
    if (logarithm && !(p->low > 0))
        return dl_yaml_fail(err, low->place, "min of %s must be above 0: its logarithm is drawn",
                            s->quoted);
    if (q && !(p->step > 0))
        return dl_yaml_fail(err, q->place, "q of %s must be above 0", s->quoted);
    return true;
}

static bool read_parameter(dl_arena *arena, dl_sweep_file *f, const dl_yaml_entry *e,
                           dl_sweep_parameter *p, dl_error *err) {
    said s = {.arena = arena, .quoted = dl_yaml_quote(arena, e->key), .place = e->place};
    *p = (dl_sweep_parameter){.name = e->key, .place = e->place};
    if (e->value->kind != DL_YAML_MAP)
        return dl_yaml_fail(err, e->value->place,
                            "%s must be a map with value, values, or min and max, not %s", s.quoted,
                            dl_yaml_show(arena, e->value));
    if (dl_yaml_get(e->value, "parameters"))
        return dl_yaml_fail(err, e->place,
                            "%s groups parameters: name each by its own key, without a group",
                            s.quoted);
    if (!check_keys(arena, s.quoted, e->value, N_WORDS, words, err)) return false;
    for (int k = 0; k < N_WORDS; k++) s.of[k] = dl_yaml_get(e->value, words[k]);
    const dl_yaml *named = s.of[DISTRIBUTION];
    int draw = named ? word_of(arena, "distribution", named, DL_N_DRAWS, dl_sweep_draws, err)
                     : usual_draw(&s);
    if (draw < 0)
        return dl_yaml_fail(err, e->place, "%s lacks value, values, or both min and max", s.quoted);
    p->draw = (dl_sweep_draw)draw;
    if (!check_given(&s, draw, err)) return false;
    if (p->draw == DL_DRAW_CONSTANT) {
        const dl_yaml **one = DL_NEWS(arena, const dl_yaml *, 1);
        *one = s.of[VALUE];
        p->n = 1, p->values = one;
        return true;
    }
    if (p->draw == DL_DRAW_CATEGORICAL) {
        if (f->method == DL_METHOD_GRID && s.of[PROBABILITIES])
            return dl_yaml_fail(err, s.of[PROBABILITIES]->place,
                                "a grid takes each value once: %s of %s mean "
                                "nothing to it",
                                words[PROBABILITIES], s.quoted);
        return take_values(&s, p, err);
    }
    if (!take_range(&s, p, err)) return false;
    if (f->method == DL_METHOD_RANDOM) return true;
    return p->draw == DL_DRAW_INT_UNIFORM
               ? list_values(&s, p, err)
               : dl_yaml_fail(err, e->place,
                              "%s is %s, which a grid cannot go through: list its values", s.quoted,
                              dl_sweep_draws[draw]);
}

/* ---- the file ---- */

static const char *const keys[] = {"method", "metric", "parameters", "run_cap", "seed"};
/* Keys for W&B itself: its server, how its agent starts a program. */
static const char *const passed_over[] = {"name",    "description", "project",    "entity",
                                          "program", "command",     "controller", "program_type"};
enum { N_KEYS = sizeof keys / sizeof *keys, N_PASSED = sizeof passed_over / sizeof *passed_over };

static bool check_top(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    if (top->kind != DL_YAML_MAP)
        return dl_yaml_fail(err, top->place, "a sweep's file is a map with %s, not %s",
                            list(arena, 3, keys), dl_yaml_show(arena, top));
    for (int i = 0; i < top->entries.n; i++) {
        dl_yaml_entry e = top->entries.at[i];
        if (strcmp(e.key, "early_terminate") == 0)
            return dl_yaml_fail(err, e.place,
                                "early_terminate is not in this version: every trial runs to its "
                                "end; leave it out");
        if (find(e.key, N_KEYS, keys) < 0 && find(e.key, N_PASSED, passed_over) < 0)
            return dl_yaml_fail(err, e.place, "unknown key %s in a sweep's file%s; it can have %s",
                                dl_yaml_quote(arena, e.key), nearest(arena, e.key, N_KEYS, keys),
                                list(arena, N_KEYS, keys));
        if (strcmp(e.key, "command") == 0)
            dl_push(
                arena, &f->warnings,
                dl_format(arena,
                          "%.200s:%d: command is Weights & Biases' alone: runs here are started by "
                          "dlrun",
                          f->path, e.place.line));
    }
    return true;
}

static bool take_method(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    const dl_yaml *v = dl_yaml_get(top, "method");
    if (!v) return dl_yaml_fail(err, top->place, "a sweep's file says its method: grid or random");
    if (v->kind == DL_YAML_STRING && strcmp(v->text, "bayes") == 0)
        return dl_yaml_fail(err, v->place,
                            "method: bayes is not in this version; grid and random are");
    int k = word_of(arena, "method", v, 2, dl_sweep_methods, err);
    f->method = (dl_sweep_method)k;
    return k >= 0;
}

static bool take_metric(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    static const char *const parts[] = {"name", "goal"}, *const goals[] = {"minimize", "maximize"};
    const dl_yaml *v = dl_yaml_get(top, "metric");
    if (!v) return true;
    if (v->kind != DL_YAML_MAP)
        return dl_yaml_fail(err, v->place,
                            "metric must be a map, {name: val_loss, goal: minimize}, not %s",
                            dl_yaml_show(arena, v));
    if (!check_keys(arena, "metric", v, 2, parts, err)) return false;
    const dl_yaml *name = dl_yaml_get(v, "name"), *goal = dl_yaml_get(v, "goal");
    if (!name || name->kind != DL_YAML_STRING || !*name->text)
        return dl_yaml_fail(err, name ? name->place : v->place,
                            "metric needs the name of what runs record: {name: val_loss}");
    f->metric = name->text, f->metric_place = name->place;
    int k = goal ? word_of(arena, "goal", goal, 2, goals, err) : 0;
    f->maximize = k == 1;
    return k >= 0;
}

/* Reads a whole number at the top of the file, or returns `otherwise`. */
static bool take_whole(dl_arena *arena, const dl_yaml *top, const char *key, int64_t least,
                       int64_t otherwise, int64_t *value, dl_error *err) {
    const dl_yaml *v = dl_yaml_get(top, key);
    *value = v && v->kind == DL_YAML_INT ? v->integer : otherwise;
    return !v || (v->kind == DL_YAML_INT && v->integer >= least) ||
           dl_yaml_fail(err, v->place, "%s must be an integer of at least %lld, not %s", key,
                        (long long)least, dl_yaml_show(arena, v));
}

static bool take_parameters(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    const dl_yaml *v = dl_yaml_get(top, "parameters");
    if (!v || v->kind != DL_YAML_MAP || v->entries.n == 0)
        return dl_yaml_fail(
            err, v ? v->place : top->place,
            "a sweep's file has parameters: a map of keys, {lr: {values: [1e-4, 1e-3]}}");
    dl_sweep_parameter *p = DL_NEWS(arena, dl_sweep_parameter, v->entries.n);
    f->n = v->entries.n, f->parameters = p;
    for (int i = 0; i < f->n; i++)
        if (!read_parameter(arena, f, &v->entries.at[i], &p[i], err)) return false;
    return true;
}

static bool count_trials(dl_sweep_file *f, int64_t cap, dl_error *err) {
    f->trials = cap;
    if (f->method == DL_METHOD_RANDOM) return true;
    int64_t all = 1;
    for (int i = 0; i < f->n; i++) {
        all *= f->parameters[i].n;
        if (all > DL_SWEEP_MOST)
            return dl_yaml_fail(err, f->parameters[i].place, "this grid has more than %d trials",
                                DL_SWEEP_MOST);
    }
    if (cap < 0 || cap > all) f->trials = all;
    return true;
}

const dl_sweep_file *dl_sweep_parse(dl_arena *arena, const dl_yaml *top, const char *path,
                                    dl_error *err) {
    dl_sweep_file *f = DL_NEW(arena, dl_sweep_file);
    f->path = dl_strdup(arena, path);
    int64_t cap, seed;
    bool ok = check_top(arena, f, top, err) && take_method(arena, f, top, err) &&
              take_metric(arena, f, top, err) &&
              take_whole(arena, top, "run_cap", 1, -1, &cap, err) &&
              take_whole(arena, top, "seed", 0, 0, &seed, err) &&
              take_parameters(arena, f, top, err) && count_trials(f, cap, err);
    if (ok) f->seed = (uint64_t)seed;
    return ok ? f : NULL;
}

const dl_sweep_file *dl_sweep_read(dl_arena *arena, const char *path, dl_error *err) {
    const dl_yaml *top = dl_yaml_read_file(arena, path, err);
    return top ? dl_sweep_parse(arena, top, path, err) : NULL;
}
