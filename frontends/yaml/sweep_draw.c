/* The distributions of a sweep's parameters: each is a map from quantiles to values, and back. */
#include <math.h>

#include "frontends/yaml/sweep_private.h"
#include "ir/base/hash.h"
#include "ir/base/philox.h"

/* The counter of the random numbers:
 *
 *   key     = seed, low word then high word
 *   counter = {trial, low then high word; hash of the name, low then high word}
 *
 * A unit is a multiple of 2^-53. */
void dl_sweep_units(const dl_sweep_file *f, const char *name, int64_t number, int draw,
                    double unit[2]) {
    uint64_t n = (uint64_t)number, of = dl_hash_str(name, (uint64_t)draw);
    uint32_t c[4] = {(uint32_t)n, (uint32_t)(n >> 32), (uint32_t)of, (uint32_t)(of >> 32)};
    dl_philox(c, (uint32_t)f->seed, (uint32_t)(f->seed >> 32));
    for (int i = 0; i < 2; i++)
        unit[i] = (double)(((uint64_t)c[2 * i + 1] << 32 | c[2 * i]) >> 11) * 0x1p-53;
}

const dl_yaml *dl_sweep_number(dl_arena *arena, double x, bool whole, dl_yaml_place place) {
    dl_buf b = {0};
    if (whole)
        dl_putf(&b, "%.0f", x);
    else
        dl_put_double(&b, x);
    const dl_yaml *v = dl_yaml_plain(arena, dl_strndup(arena, b.at, b.n), place);
    dl_buf_free(&b);
    return v;
}

/* ---- the normal distribution ---- */

double dl_sweep_normal(double x) { return erfc(-x / sqrt(2)) / 2; }

/* By bisection: the share is exact, and a draw is rare. */
double dl_sweep_normal_quantile(double unit) {
    enum { STEPS = 60 };
    double low = -9, high = 9; /* beyond which a share is below 2^-60 */
    for (int i = 0; i < STEPS; i++) {
        double middle = (low + high) / 2;
        if (dl_sweep_normal(middle) < unit)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* ---- ranges ---- */

static double uniform_at(const dl_sweep_parameter *p, double u) {
    return p->low + u * (p->high - p->low);
}
static double uniform_unit(const dl_sweep_parameter *p, double x) {
    return (x - p->low) / (p->high - p->low);
}
static double int_at(const dl_sweep_parameter *p, double u) {
    return fmin(p->low + floor(u * (p->high - p->low + 1)), p->high);
}
static double int_unit(const dl_sweep_parameter *p, double x) {
    return (x - p->low + 0.5) / (p->high - p->low + 1);
}
static double log_at(const dl_sweep_parameter *p, double u) {
    double x = exp(log(p->low) + u * (log(p->high) - log(p->low)));
    return fmin(fmax(x, p->low), p->high); /* rounding may have moved it outside */
}
static double log_unit(const dl_sweep_parameter *p, double x) {
    return x > 0 ? log(x / p->low) / log(p->high / p->low) : 0;
}
static double normal_at(const dl_sweep_parameter *p, double u) {
    return p->low + p->high * dl_sweep_normal_quantile(u);
}
static double normal_unit(const dl_sweep_parameter *p, double x) {
    return dl_sweep_normal((x - p->low) / p->high);
}

typedef double map_fn(const dl_sweep_parameter *p, double x);
static const struct {
    map_fn *at, *unit; /* NULL: of listed values */
} ranges[DL_N_DRAWS] = {
    [DL_DRAW_INT_UNIFORM] = {int_at, int_unit},
    [DL_DRAW_UNIFORM] = {uniform_at, uniform_unit},
    [DL_DRAW_Q_UNIFORM] = {uniform_at, uniform_unit},
    [DL_DRAW_LOG_UNIFORM_VALUES] = {log_at, log_unit},
    [DL_DRAW_Q_LOG_UNIFORM_VALUES] = {log_at, log_unit},
    [DL_DRAW_NORMAL] = {normal_at, normal_unit},
};

double dl_sweep_quantile(const dl_sweep_parameter *p, double unit) {
    double x = ranges[p->draw].at(p, unit);
    return p->step > 0 ? nearbyint(x / p->step) * p->step : x;
}

double dl_sweep_unit(const dl_sweep_parameter *p, double x) {
    return fmin(fmax(ranges[p->draw].unit(p, x), 0), 1);
}

/* ---- values ---- */

static const dl_yaml *choose(const dl_sweep_parameter *p, double unit) {
    int i = 0;
    if (!p->shares) return p->values[(int)(unit * p->n)];
    for (double sum = p->shares[0]; i + 1 < p->n && unit >= sum; sum += p->shares[i]) i++;
    while (i > 0 && p->shares[i] == 0) i--; /* the sum of probabilities, rounded, may be below 1 */
    return p->values[i];
}

const dl_yaml *dl_sweep_at(dl_arena *arena, const dl_sweep_parameter *p, double unit) {
    if (p->n) return choose(p, unit);
    return dl_sweep_number(arena, dl_sweep_quantile(p, unit),
                           p->draw == DL_DRAW_INT_UNIFORM || p->whole, p->place);
}
