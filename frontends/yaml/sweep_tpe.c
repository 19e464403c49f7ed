/* The tree-structured Parzen estimator (Bergstra, Bardenet, Bengio and Kegl 2011): earlier trials
 * are split into the good ones and the others. Each half gives a density of a parameter's values.
 * Of some values drawn by the density of the good ones, the one is taken at which it is the largest
 * multiple of the other density: the largest expected improvement.
 *
 * Ranges are looked at by quantiles, 0 to 1, where every distribution is uniform. Constants are
 * those of Optuna's TPESampler. A trial without a result counts among the others, so that jobs at
 * work at once do not draw the same values, and values that cannot be trained with are avoided. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/yaml/sweep_private.h"

enum { FIRST = 10 /* trials that are drawn at random */, CANDIDATES = 24, MOST_GOOD = 25 };

/* ---- good trials and others ---- */

typedef struct {
    double loss;
    int number;
} ranked;

static int by_loss(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Marks the good trials; returns how many have a result. */
static int split(dl_arena *arena, const dl_sweep_history *past, bool *good) {
    ranked *all = DL_NEWS(arena, ranked, past->n + 1);
    int n = 0;
    for (int i = 0; i < past->n; i++)
        if (!isnan(past->at[i].loss)) all[n++] = (ranked){past->at[i].loss, i};
    qsort(all, (size_t)n, sizeof *all, by_loss);
    int most = (n + FIRST - 1) / FIRST; /* a tenth, rounded up */
    for (int i = 0; i < n && i < most && i < MOST_GOOD; i++) good[all[i].number] = true;
    return n;
}

/* ---- listed values ---- */

static const char *text_of(dl_arena *arena, const dl_yaml *v) {
    dl_buf b = {0};
    dl_yaml_put_json(&b, v);
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

/* The index of the value that an earlier trial had; -1: it is no longer listed. */
static int index_of(dl_arena *arena, const dl_sweep_parameter *p, const dl_yaml *v) {
    for (int i = 0; i < p->n; i++)
        if (strcmp(text_of(arena, p->values[i]), text_of(arena, v)) == 0) return i;
    return -1;
}

/* Probabilities of the listed values, by how often the trials had them and, as one more trial, by
 * the distribution's own. */
static void count_listed(dl_arena *arena, const dl_sweep_parameter *p, const dl_sweep_history *past,
                         const bool *good, bool of_good, double *share) {
    double all = 1;
    for (int i = 0; i < p->n; i++) share[i] = p->shares ? p->shares[i] : 1.0 / p->n;
    for (int i = 0; i < past->n; i++) {
        const dl_yaml *v = dl_yaml_get(past->at[i].values, p->name);
        int k = v && good[i] == of_good ? index_of(arena, p, v) : -1;
        if (k >= 0) share[k]++, all++;
    }
    for (int i = 0; i < p->n; i++) share[i] /= all;
}

static const dl_yaml *choose_listed(dl_arena *arena, const dl_sweep_file *f,
                                    const dl_sweep_parameter *p, int64_t number,
                                    const dl_sweep_history *past, const bool *good) {
    double *of_good = DL_NEWS(arena, double, p->n), *of_others = DL_NEWS(arena, double, p->n);
    count_listed(arena, p, past, good, true, of_good);
    count_listed(arena, p, past, good, false, of_others);
    int best = 0;
    double most = -1;
    dl_sweep_parameter by = *p; /* drawn by the density of the good ones */
    by.shares = of_good;
    for (int i = 0; i < CANDIDATES; i++) {
        double u[2];
        dl_sweep_units(f, p->name, number, i, u);
        const dl_yaml *v = dl_sweep_at(arena, &by, u[0]);
        int k = 0;
        while (p->values[k] != v) k++;
        double ratio = of_good[k] / of_others[k];
        if (ratio > most) most = ratio, best = k;
    }
    return p->values[best];
}

/* ---- ranges ---- */

/* Normal distributions cut off at 0 and 1, of one weight: one for each trial and, as the last, a
 * wide one. */
typedef struct {
    int n;
    double *mean, *deviation, *low, *high; /* shares of the whole normal one below 0 and below 1 */
} mixture;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The larger distance to the neighbours at either side, where there are any. */
static double gap_of(const double *sorted, int n, int i) {
    double gap = 0;
    if (i > 0) gap = sorted[i] - sorted[i - 1];
    if (i + 1 < n) gap = fmax(gap, sorted[i + 1] - sorted[i]);
    return gap;
}

static mixture build(dl_arena *arena, const dl_sweep_parameter *p, const dl_sweep_history *past,
                     const bool *good, bool of_good) {
    const double wide_mean = 0.5, wide = 1;
    enum { FINEST = 100 };
    mixture m = {0};
    double *x = DL_NEWS(arena, double, past->n + 1);
    for (int i = 0; i < past->n; i++) {
        const dl_yaml *v = dl_yaml_get(past->at[i].values, p->name);
        if (v && good[i] == of_good && dl_sweep_is_number(v))
            x[m.n++] = dl_sweep_unit(p, v->number);
    }
    x[m.n++] = wide_mean;
    m.mean = x, m.deviation = DL_NEWS(arena, double, m.n);
    m.low = DL_NEWS(arena, double, m.n), m.high = DL_NEWS(arena, double, m.n);
    qsort(x, (size_t)m.n, sizeof *x, by_size);
    double least = 1.0 / fmin(FINEST, m.n + 1);
    bool is_wide = false; /* the wide one is taken out of the order */
    for (int i = 0; i < m.n; i++) {
        bool this = !is_wide && x[i] == wide_mean;
        m.deviation[i] = this ? wide : fmin(fmax(gap_of(x, m.n, i), least), wide);
        is_wide |= this;
        m.low[i] = dl_sweep_normal(-x[i] / m.deviation[i]);
        m.high[i] = dl_sweep_normal((1 - x[i]) / m.deviation[i]);
    }
    return m;
}

static double density(const mixture *m, double u) {
    double sum = 0;
    for (int i = 0; i < m->n; i++) {
        double z = (u - m->mean[i]) / m->deviation[i];
        sum += exp(-z * z / 2) / (m->deviation[i] * (m->high[i] - m->low[i]));
    }
    return sum / (m->n * sqrt(2 * acos(-1)));
}

static double draw(const mixture *m, const double unit[2]) {
    int i = (int)(unit[0] * m->n);
    double z = dl_sweep_normal_quantile(m->low[i] + unit[1] * (m->high[i] - m->low[i]));
    return fmin(fmax(m->mean[i] + m->deviation[i] * z, 0), 1);
}

static const dl_yaml *choose_range(dl_arena *arena, const dl_sweep_file *f,
                                   const dl_sweep_parameter *p, int64_t number,
                                   const dl_sweep_history *past, const bool *good) {
    mixture of_good = build(arena, p, past, good, true),
            of_others = build(arena, p, past, good, false);
    double best = 0, most = -1;
    for (int i = 0; i < CANDIDATES; i++) {
        double u[2];
        dl_sweep_units(f, p->name, number, i, u);
        double unit = draw(&of_good, u), at = dl_sweep_unit(p, dl_sweep_quantile(p, unit)),
               ratio = density(&of_good, at) / density(&of_others, at);
        if (ratio > most) most = ratio, best = unit;
    }
    return dl_sweep_at(arena, p, best);
}

const dl_yaml *dl_sweep_tpe(dl_arena *arena, const dl_sweep_file *f, const dl_sweep_parameter *p,
                            int64_t number, const dl_sweep_history *past) {
    double u[2];
    bool *good = past ? DL_NEWS(arena, bool, past->n + 1) : NULL;
    if (good && split(arena, past, good) >= FIRST)
        return (p->n ? choose_listed : choose_range)(arena, f, p, number, past, good);
    dl_sweep_units(f, p->name, number, 0, u);
    return dl_sweep_at(arena, p, u[0]);
}
