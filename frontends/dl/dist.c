#include "frontends/dl/dist.h"

#include <math.h>

/* Distributions of initial values. The fan-scaled ones are those of Keras (He and Glorot normal are
 * truncated at two deviations, and scaled so that the deviation after truncation is the requested
 * one) and PyTorch's kaiming_uniform with a = sqrt(5). */
static const dl_dist dists[] = {
    {"normal", 2, DL_BY_ARGUMENTS, DL_INIT_NORMAL, 0},
    {"trunc_normal", 2, DL_BY_ARGUMENTS, DL_INIT_TRUNC_NORMAL, 0},
    {"uniform", 2, DL_BY_ARGUMENTS, DL_INIT_UNIFORM, 0},
    {"constant", 1, DL_BY_ARGUMENTS, DL_INIT_CONST, 0},
    {"he_normal", 0, DL_BY_FAN_IN, DL_INIT_TRUNC_NORMAL, 2},
    {"he_uniform", 0, DL_BY_FAN_IN, DL_INIT_UNIFORM, 2},
    {"glorot_normal", 0, DL_BY_FANS, DL_INIT_TRUNC_NORMAL, 1},
    {"glorot_uniform", 0, DL_BY_FANS, DL_INIT_UNIFORM, 1},
    {"kaiming_uniform", 0, DL_BY_FAN_IN, DL_INIT_UNIFORM, 1.0 / 3},
};
enum { NDISTS = sizeof dists / sizeof *dists };
/* Standard deviation of the unit normal truncated at two deviations. */
static const double cut_deviation = 0.87962566103423978;

bool dl_bad_dist(dl_elab *E, const dl_ast *e, const char *name) {
    const char *names[NDISTS];
    for (int i = 0; i < NDISTS; i++) names[i] = dists[i].name;
    const char *near = name ? dl_suggest(name, names, NDISTS) : NULL;
    if (name)
        dl_bad(E, e->span, DL_DIAG_bad_init, "'%s' is no distribution", name);
    else
        dl_bad(E, e->span, DL_DIAG_bad_init, "a distribution must follow '~'");
    if (near)
        dl_help(E, "did you mean '%s'?", near);
    else
        dl_help(
            E,
            "write ~ normal(mean, deviation), uniform(low, high), he_normal..., or = and a number");
    return false;
}

const dl_dist *dl_dist_find(const char *name) {
    for (int k = 0; k < NDISTS; k++)
        if (strcmp(dists[k].name, name) == 0) return &dists[k];
    return NULL;
}

bool dl_dist_init(dl_elab *E, const dl_init_rule *rule, double fan_in, double fan_out,
                  dl_init *out) {
    (void)E;
    const dl_dist *d = dl_dist_find(rule->dist);
    *out = (dl_init){d->kind, rule->a, rule->b};
    if (out->kind == DL_INIT_CONST && rule->a == 0) out->kind = DL_INIT_ZERO;
    if (d->scale == DL_BY_ARGUMENTS) return true;
    double fan = d->scale == DL_BY_FAN_IN ? fan_in : (fan_in + fan_out) / 2;
    double variance = d->factor / (fan > 1 ? fan : 1), deviation = sqrt(variance);
    if (out->kind == DL_INIT_UNIFORM)
        out->a = -sqrt(3 * variance), out->b = sqrt(3 * variance);
    else
        out->a = 0, out->b = deviation / cut_deviation;
    return true;
}
