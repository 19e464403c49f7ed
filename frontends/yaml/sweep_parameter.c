/* Reads a parameter of a sweep: its distribution and what that takes. */
#include <math.h>
#include <stdlib.h>

#include "frontends/yaml/sweep_private.h"

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
        if (s->of[k] && k <= Q && !dl_sweep_is_number(s->of[k]))
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
        if (!dl_sweep_is_number(x) || x->number < 0)
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

bool dl_sweep_read_parameter(dl_arena *arena, const dl_sweep_method *method, const char *name,
                             const dl_yaml_entry *e, dl_sweep_parameter *p, dl_error *err) {
    said s = {.arena = arena, .quoted = dl_yaml_quote(arena, name), .place = e->place};
    *p = (dl_sweep_parameter){.name = name, .place = e->place};
    if (e->value->kind != DL_YAML_MAP)
        return dl_yaml_fail(err, e->value->place,
                            "%s must be a map with value, values, or min and max, not %s", s.quoted,
                            dl_yaml_show(arena, e->value));
    if (!dl_sweep_check_keys(arena, s.quoted, e->value, N_WORDS, words, err)) return false;
    for (int k = 0; k < N_WORDS; k++) s.of[k] = dl_yaml_get(e->value, words[k]);
    const dl_yaml *named = s.of[DISTRIBUTION];
    int draw = named ? dl_sweep_word(arena, "distribution", named, DL_N_DRAWS, dl_sweep_draws, err)
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
        if (method->is_grid && s.of[PROBABILITIES])
            return dl_yaml_fail(err, s.of[PROBABILITIES]->place,
                                "a grid takes each value once: %s of %s mean "
                                "nothing to it",
                                words[PROBABILITIES], s.quoted);
        return take_values(&s, p, err);
    }
    if (!take_range(&s, p, err)) return false;
    if (!method->is_grid) return true;
    return p->draw == DL_DRAW_INT_UNIFORM
               ? list_values(&s, p, err)
               : dl_yaml_fail(err, e->place,
                              "%s is %s, which a grid cannot go through: list its values", s.quoted,
                              dl_sweep_draws[draw]);
}
