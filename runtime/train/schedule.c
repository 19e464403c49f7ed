#include "runtime/train/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double scale_none(double ratio) { return (void)ratio, 1; }
static double scale_linear(double ratio) { return ratio; }

static const struct {
    const char *name;
    double (*factor)(double ratio);
} scalings[] = {{"none", scale_none}, {"linear", scale_linear}, {"sqrt", sqrt}};

static double count_of(dl_rate_count c, double all) { return c.share * all + c.plus; }

/* A rate; `scale` is what batch and ranks make of the first one. */
static double level_of(dl_rate_level l, const dlr_schedule *s, double scale) {
    return l.value * (l.unit == DL_RATE_OF_START ? s->start_lr * scale
                      : l.unit == DL_RATE_SCALED ? scale
                                                 : 1);
}

/* A length that is nothing, of a run of few steps, is as short as one can be. */
static void set_phases(dlr_rates *r, const dlr_schedule *s, double scale) {
    r->unit = s->phases_in_epochs ? (double)s->epoch_steps : 1;
    r->phases = s->phases;
    double all = ceil((double)s->steps / r->unit);
    for (int i = 0; i < s->phases; i++) {
        const dl_rate_phase *p = &s->phase[i];
        r->phase[i] = (dlr_rate_phase){.start = count_of(p->start, all),
                                       .length = fmax(count_of(p->length, all), 1e-9),
                                       .from = level_of(p->from, s, scale),
                                       .to = level_of(p->to, s, scale),
                                       .by = p->by,
                                       .down = p->down,
                                       .fade = p->fade};
    }
}

bool dlr_schedule_rates(const dlr_schedule *s, dlr_rates *rates, dl_error *err) {
    if (s->global_batch < 1 || s->base_batch < 1 || s->steps < 1 || s->epoch_steps < 1)
        return dl_fail(
            err, DL_USAGE,
            "a schedule of %lld steps at batch %lld (base %lld) cannot be: each must be at least 1",
            (long long)s->steps, (long long)s->global_batch, (long long)s->base_batch);
    double by_ranks = 1, ranks = s->ranks > 1 ? (double)s->ranks : 1;
    for (size_t i = 0; s->rank_scaling && i < sizeof scalings / sizeof *scalings; i++)
        if (strcmp(s->rank_scaling, scalings[i].name) == 0) by_ranks = scalings[i].factor(ranks);
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++) {
        if (strcmp(s->scaling, scalings[i].name) != 0) continue;
        double ratio = (double)s->global_batch / (double)s->base_batch;
        bool warm = !s->warmup_where_scaled || (ratio > 1 && scalings[i].factor != scale_none);
        int64_t epochs =
            s->cosine_epochs ? s->cosine_epochs : (s->steps + s->epoch_steps - 1) / s->epoch_steps;
        double warmup = (double)s->warmup_steps + (double)s->warmup_epochs * (double)s->epoch_steps;
        *rates = (dlr_rates){.init = by_ranks * scalings[i].factor(ratio > 1 ? ratio : 1) *
                                     s->start_lr, /* up only */
                             .end = s->end_lr,
                             .warmup = warm ? warmup : 0,
                             .warmup_from = by_ranks > 1 ? 1 / ranks : 1,
                             .total = (double)(s->by_epochs ? epochs : s->steps),
                             .epoch_steps = (double)s->epoch_steps,
                             .range = s->range,
                             .ranges = s->ranges};
        set_phases(rates, s, by_ranks * scalings[i].factor(ratio > 1 ? ratio : 1));
        return true;
    }
    return dl_fail(err, DL_USAGE, "scaling must be none, linear or sqrt, not '%.60s'", s->scaling);
}

/* The value of lr.phase.I.NAME. */
static bool phase_value(const dlr_rates *r, const char *name, double *value) {
    int i, n = 0;
    if (sscanf(name, "optimizer.lr.phase.%d.%n", &i, &n) != 1 || !n || i < 0 || i >= r->phases)
        return false;
    const dlr_rate_phase *p = &r->phase[i];
    const struct {
        const char *name;
        double value;
    } members[] = {{"start", p->start}, {"length", p->length}, {"from", p->from}, {"to", p->to},
                   {"by", p->by},       {"down", p->down},     {"fade", p->fade}};
    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        if (strcmp(name + n, members[k].name) == 0) return *value = members[k].value, true;
    return false;
}

bool dlr_rates_value(const dlr_rates *r, const char *name, double *value) {
    const struct {
        const char *name;
        double value;
    } plain[] = {{"optimizer.lr.init", r->init},
                 {"optimizer.lr.end", r->end},
                 {"optimizer.lr.warmup", r->warmup},
                 {"optimizer.lr.warmup.from", r->warmup_from ? r->warmup_from : 1},
                 {"optimizer.lr.total", r->total},
                 {"optimizer.lr.steps", r->epoch_steps},
                 {"optimizer.lr.unit", r->unit ? r->unit : 1},
                 {"optimizer.lr.passed", r->passed}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(name, plain[i].name) == 0) return *value = plain[i].value, true;
    if (phase_value(r, name, value)) return true;
    int i, n = 0;
    if (sscanf(name, "optimizer.lr.range.%d.%n", &i, &n) != 1 || !n || i < 0 || i >= r->ranges)
        return false;
    const dlr_rate_range *at = &r->range[i];
    *value = !strcmp(name + n, "start") ? at->start
             : !strcmp(name + n, "end") ? at->end
                                        : at->factor;
    return true;
}

double dlr_schedule_rate(const dlr_rates *r, int64_t i) {
    double step = (double)i;
    if (step < r->warmup) return step / r->warmup * r->init;
    return r->end + 0.5 * (r->init - r->end) * (1 + cos(M_PI * (step - r->warmup) / r->total));
}

double dlr_schedule_cosine(const dlr_rates *r, int64_t i) {
    double wave = 0.5 * (1 + cos(M_PI * (double)(i - 1) / r->total));
    return fmin((double)i / r->warmup * r->init, r->end + (r->init - r->end) * wave);
}
