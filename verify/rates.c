/* The learning rate of a step by the definitions of the schedules. Nothing here uses
 * passes/optim/schedules.c and phases.c. */
#include <math.h>

#include "verify/parts.h"

typedef struct {
    const dl_step_of *of;
    dl_arena *arena;
} rates;

static double number(const rates *w, const char *name, double fallback) {
    return dl_verify_hyper(w->of, w->arena, name, fallback);
}

static double half_cosine(const rates *w, double at) {
    double first = number(w, "lr.init", 0), last = number(w, "lr.end", 0),
           total = number(w, "lr.total", 1);
    return last + (first - last) * (1 + cos(M_PI * at / total)) / 2;
}

/* min(1, at / warmup) */
static double risen(const rates *w, double at) {
    double steps = number(w, "lr.warmup", 0);
    return at < steps ? at / steps : 1;
}

/* The factor of the last range of epochs that has begun. */
static double factor_of_ranges(const rates *w, double epoch) {
    double factor = 1, held = -1;
    for (int i = 0; i < w->of->step_options->ranges; i++) {
        double from = number(w, dl_internf("lr.range.%d.start", i), 0);
        double to = number(w, dl_internf("lr.range.%d.end", i), 0);
        double last = epoch < to - 1 ? epoch : to - 1;
        if (epoch < from || last < held) continue;
        held = last, factor = number(w, dl_internf("lr.range.%d.factor", i), 1);
    }
    return factor;
}

static double piecewise(const rates *w, double at, double first, double epoch) {
    double warmup = number(w, "lr.warmup", 0), from = number(w, "lr.warmup.from", 1);
    double rise = at < warmup ? from + (1 - from) * at / warmup : 1;
    return first * factor_of_ranges(w, epoch) * rise;
}

/* ---- phases, as PyTorch's schedulers step through them ---- */

static double number_of(const rates *w, int k, const char *name, double fallback) {
    return number(w, dl_internf("lr.phase.%d.%s", k, name), fallback);
}

/* The position within the cycle of restarts that step n is in, as a share of its length. */
static double restarted(double n, double length, double by) {
    if (by <= 1) return fmod(n, length) / length;
    while (n >= length) n -= length, length *= by;
    return n / length;
}

static double triangle(const rates *w, int k, double n) {
    double up = number_of(w, k, "length", 1), down = number_of(w, k, "down", 1);
    double cycle = floor(1 + n / (up + down)), x = 1 + n / (up + down) - cycle,
           way = up / (up + down);
    double height = x <= way ? x / way : (x - 1) / (way - 1);
    return height * pow(number_of(w, k, "fade", 1), cycle - 1) * pow(number_of(w, k, "by", 1), n);
}

static double phase_rate(const rates *w, int k, double n) {
    double from = number_of(w, k, "from", 0), to = number_of(w, k, "to", 0);
    double length = number_of(w, k, "length", 1), by = number_of(w, k, "by", 1);
    double share = n < length ? n / length : 1;
    switch ((dl_rate_phase_kind)dl_step_phase(w->of->step_options, k)) {
    case DL_RATE_PHASE_power: return (from - to) * pow(1 - share, by) + to;
    case DL_RATE_PHASE_cosine: return to + (from - to) * (1 + cos(M_PI * share)) / 2;
    case DL_RATE_PHASE_steps: return from * pow(by, floor(n / length));
    case DL_RATE_PHASE_restarts:
        return to + (from - to) * (1 + cos(M_PI * restarted(n, length, by))) / 2;
    case DL_RATE_PHASE_cycle: return from + (to - from) * triangle(w, k, n);
    case DL_N_RATE_PHASES: break;
    }
    return NAN;
}

static double phases_rate(const rates *w, double at) {
    double n = floor((at - 1) / number(w, "lr.unit", 1)), rate = 0;
    for (int k = 0; dl_step_phase(w->of->step_options, k) >= 0; k++) {
        double start = number_of(w, k, "start", 0);
        if (k == 0 || n >= start) rate = phase_rate(w, k, n > start ? n - start : 0);
    }
    return rate;
}

double dl_verify_rate(const dl_step_of *of, dl_arena *arena, double at) {
    const rates *w = &(rates){of, arena};
    double first = number(w, "lr.init", 0), warmup = number(w, "lr.warmup", 0);
    double epoch = floor((at - 1) / number(w, "lr.steps", 1));
    switch (w->of->step_options->schedule) { /* each row of ir/base/schedules.def: -Wswitch */
    case DL_SCHEDULE_warmup_cosine:
        return at < warmup ? first * at / warmup : half_cosine(w, at - warmup);
    case DL_SCHEDULE_cosine:
        return fmin(warmup > 0 ? first * at / warmup : INFINITY, half_cosine(w, at - 1));
    case DL_SCHEDULE_cosine_epochs: return half_cosine(w, epoch) * risen(w, at);
    case DL_SCHEDULE_piecewise: return piecewise(w, at, first, epoch);
    case DL_SCHEDULE_phases: return phases_rate(w, at) * risen(w, at);
    case DL_SCHEDULE_constant: return first * number(w, "lr.scale", 1) * risen(w, at);
    }
    return NAN;
}
