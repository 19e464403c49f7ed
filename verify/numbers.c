#include <math.h>

#include "verify/parts.h"

double dl_verify_distance(const double *a, const double *b, int64_t n) {
    double most = 0, sum = 0; /* scaled: squares of 1e200 would be infinite */
    for (int64_t i = 0; i < n; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
        double d = fabs(a[i] - b[i]);
        if (!isfinite(d)) return INFINITY;
        if (d > most)
            sum = sum * (most / d) * (most / d) + 1, most = d;
        else
            sum += (d / most) * (d / most);
    }
    return most * sqrt(sum);
}

double dl_verify_norm(const double *a, int64_t n) {
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(a[i]);
        if (!isfinite(d) || d == 0) continue;
        if (d > most)
            sum = sum * (most / d) * (most / d) + 1, most = d;
        else
            sum += (d / most) * (d / most);
    }
    return most * sqrt(sum);
}

double *dl_verify_copy(dl_arena *arena, const double *a, int64_t n) {
    double *copy = DL_NEWS(arena, double, n + 1);
    if (n) memcpy(copy, a, sizeof *a * (size_t)n);
    return copy;
}

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
double dl_verify_uniform(uint64_t seed, uint64_t number) {
    uint64_t z = seed * 0xd1342543de82ef95u + (number + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1;
}

/* Box and Muller 1958. */
double dl_verify_normal(uint64_t seed, uint64_t number) {
    double u = (dl_verify_uniform(seed, 2 * number) + 1) / 2,
           v = dl_verify_uniform(seed, 2 * number + 1);
    return sqrt(-2 * log(1 - u)) * cos(M_PI * v);
}

bool dl_verify_slope(dl_verify_line *f, void *user, double size, const double *steps, double *slope,
                     bool *smooth, dl_error *err) {
    *smooth = false, *slope = NAN;
    for (; *steps > 0 && !*smooth; steps++) {
        double h = *steps, near, far;
        if (!f(user, h, &near, err) || !f(user, 2 * h, &far, err)) return false;
        near /= 2 * h, far /= 4 * h;
        double most = fmax(size, fabs(near));
        if (fabs(near - far) <= dl_verify_slope_off / 5 * most) *slope = near, *smooth = true;
    }
    return true;
}

double dl_verify_hyper(const dl_step_of *s, dl_arena *arena, const char *name, double fallback) {
    const char *full = dl_internf("optimizer.%s", name);
    const double *v = s->old(s->user, arena, full, 0, 1);
    if (s->asked) s->asked(s->user, full, fallback);
    return v ? *v : fallback;
}
