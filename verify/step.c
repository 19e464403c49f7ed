/* The end of a training step by its definitions: schedules, clipping, loss scaling, and each
 * optimiser as torch.optim documents it. Nothing here uses passes/optim/optimizers.c. */
#include <float.h>
#include <math.h>

#include "ir/base/philox.h"
#include "ir/base/tags.h"
#include "verify/parts.h"

struct dl_step {
    const dl_step_of *s;
    dl_arena *arena;
    double taken, rate; /* taken: the number of steps that were not skipped, including this one;
                           rate: the learning rate */
    bool sound;         /* all gradients are finite, or the loss is not scaled */
    double norm, clip;  /* the norm of all gradients; the factor of clipping */
    double
        weights; /* the norm of all parameters after the step, as far as they have been computed */
};
typedef dl_step step;

static double number(const step *w, const char *name, double fallback) {
    const double *v = w->s->old(w->s->user, w->arena, dl_internf("optimizer.%s", name), 0, 1);
    return v ? *v : fallback;
}

/* ---- the schedules: the rate of step `at`, from 1 ---- */

static double half_cosine(const step *w, double at) {
    double first = number(w, "lr.init", 0), last = number(w, "lr.end", 0),
           total = number(w, "lr.total", 1);
    return last + (first - last) * (1 + cos(M_PI * at / total)) / 2;
}

/* min(1, at / warmup) */
static double risen(const step *w, double at) {
    double steps = number(w, "lr.warmup", 0);
    return at < steps ? at / steps : 1;
}

/* The factor of the last range of epochs that has begun. */
static double factor_of_ranges(const step *w, double epoch) {
    double factor = 1, held = -1;
    for (int i = 0; i < w->s->step_options->ranges; i++) {
        double from = number(w, dl_internf("lr.range.%d.start", i), 0);
        double to = number(w, dl_internf("lr.range.%d.end", i), 0);
        double last = epoch < to - 1 ? epoch : to - 1;
        if (epoch < from || last < held) continue;
        held = last, factor = number(w, dl_internf("lr.range.%d.factor", i), 1);
    }
    return factor;
}

static double piecewise(const step *w, double at, double first, double epoch) {
    double warmup = number(w, "lr.warmup", 0), from = number(w, "lr.warmup.from", 1);
    double rise = at < warmup ? from + (1 - from) * at / warmup : 1;
    return first * factor_of_ranges(w, epoch) * rise;
}

/* ---- phases, as PyTorch's schedulers step through them ---- */

static double number_of(const step *w, int k, const char *name, double fallback) {
    return number(w, dl_internf("lr.phase.%d.%s", k, name), fallback);
}

/* The position within the cycle of restarts that step n is in, as a share of its length. */
static double restarted(double n, double length, double by) {
    if (by <= 1) return fmod(n, length) / length;
    while (n >= length) n -= length, length *= by;
    return n / length;
}

static double triangle(const step *w, int k, double n) {
    double up = number_of(w, k, "length", 1), down = number_of(w, k, "down", 1);
    double cycle = floor(1 + n / (up + down)), x = 1 + n / (up + down) - cycle,
           way = up / (up + down);
    double height = x <= way ? x / way : (x - 1) / (way - 1);
    return height * pow(number_of(w, k, "fade", 1), cycle - 1) * pow(number_of(w, k, "by", 1), n);
}

static double phase_rate(const step *w, int k, double n) {
    double from = number_of(w, k, "from", 0), to = number_of(w, k, "to", 0);
    double length = number_of(w, k, "length", 1), by = number_of(w, k, "by", 1);
    double share = n < length ? n / length : 1;
    switch ((dl_rate_phase_kind)dl_step_phase(w->s->step_options, k)) {
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

static double phases_rate(const step *w, double at) {
    double n = floor((at - 1) / number(w, "lr.unit", 1)), rate = 0;
    for (int k = 0; dl_step_phase(w->s->step_options, k) >= 0; k++) {
        double start = number_of(w, k, "start", 0);
        if (k == 0 || n >= start) rate = phase_rate(w, k, n > start ? n - start : 0);
    }
    return rate;
}

static double rate_of(const step *w, double at) {
    double first = number(w, "lr.init", 0), warmup = number(w, "lr.warmup", 0);
    double epoch = floor((at - 1) / number(w, "lr.steps", 1));
    switch (w->s->step_options->schedule) { /* each row of ir/base/schedules.def: -Wswitch */
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

/* ---- the optimisers ---- */

/* Elements of one parameter: before the step, their gradient, and their next values. */
typedef struct {
    const step *w;
    const dl_step_param *of;
    int64_t first, n;
    const double *old;
    double *p, *g;
} move;

/* The parameter's state before the step, to be overwritten with that after it. */
static double *kept(const move *m, const char *what) {
    const char *name = dl_internf("%s.%s", what, m->of->name);
    const double *old = m->w->s->old(m->w->s->user, m->w->arena, name, m->first, m->n);
    double *next = DL_NEWS(m->w->arena, double, m->n + 1);
    for (int64_t i = 0; i < m->n; i++) next[i] = old ? old[i] : NAN;
    return next;
}

static void keep(const move *m, const char *what, double *next) {
    const char *name = dl_internf("%s.%s", what, m->of->name);
    m->w->s->next(m->w->s->user, DL_RESULT_UPDATE, name, m->w->sound ? next : kept(m, what), m->n);
}

static double *average(const move *m, const char *what, double share, bool squares) {
    double *v = kept(m, what);
    for (int64_t i = 0; i < m->n; i++)
        v[i] = share * v[i] + (1 - share) * (squares ? m->g[i] * m->g[i] : m->g[i]);
    keep(m, what, v);
    return v;
}

static void adam(const move *m) {
    double b1 = number(m->w, "beta1", 0.9), b2 = number(m->w, "beta2", 0.999);
    double eps = number(m->w, "eps", 1e-8), c1 = 1 - pow(b1, m->w->taken),
           c2 = 1 - pow(b2, m->w->taken);
    double *mean = average(m, "exp_avg", b1, false), *square = average(m, "exp_avg_sq", b2, true);
    for (int64_t i = 0; i < m->n; i++)
        m->p[i] -= m->w->rate * (mean[i] / c1) / (sqrt(square[i] / c2) + eps);
}

static void adamax(const move *m) {
    double b1 = number(m->w, "beta1", 0.9), b2 = number(m->w, "beta2", 0.999);
    double eps = number(m->w, "eps", 1e-8), *mean = average(m, "exp_avg", b1, false);
    double *most = kept(m, "exp_inf");
    for (int64_t i = 0; i < m->n; i++) {
        most[i] = fmax(b2 * most[i], fabs(m->g[i]) + eps);
        m->p[i] -= m->w->rate / (1 - pow(b1, m->w->taken)) * mean[i] / most[i];
    }
    keep(m, "exp_inf", most);
}

static double momentum_at(const step *w, double t) {
    return number(w, "beta1", 0.9) * (1 - 0.5 * pow(0.96, t * number(w, "momentum_decay", 0.004)));
}

static void nadam(const move *m) {
    const double *past = m->w->s->old(m->w->s->user, m->w->arena, "optimizer.mu_product", 0, 1);
    double b2 = number(m->w, "beta2", 0.999), eps = number(m->w, "eps", 1e-8), t = m->w->taken;
    double now = momentum_at(m->w, t), later = momentum_at(m->w, t + 1),
           product = (past ? *past : 1) * now;
    double *mean = average(m, "exp_avg", number(m->w, "beta1", 0.9), false),
           *square = average(m, "exp_avg_sq", b2, true);
    for (int64_t i = 0; i < m->n; i++) {
        double by = sqrt(square[i] / (1 - pow(b2, t))) + eps;
        m->p[i] -= m->w->rate * (1 - now) / (1 - product) * m->g[i] / by;
        m->p[i] -= m->w->rate * later / (1 - product * later) * mean[i] / by;
    }
}

static void radam(const move *m) {
    double b1 = number(m->w, "beta1", 0.9), b2 = number(m->w, "beta2", 0.999), t = m->w->taken;
    double eps = number(m->w, "eps", 1e-8), most = 2 / (1 - b2) - 1;
    double n = most - 2 * t * pow(b2, t) / (1 - pow(b2, t));
    double rectified = sqrt((n - 4) * (n - 2) * most / ((most - 4) * (most - 2) * n));
    double *mean = average(m, "exp_avg", b1, false), *square = average(m, "exp_avg_sq", b2, true);
    for (int64_t i = 0; i < m->n; i++) {
        double unbiased = mean[i] / (1 - pow(b1, t));
        double adapted = sqrt(1 - pow(b2, t)) / (sqrt(square[i]) + eps);
        m->p[i] -= m->w->rate * unbiased * (n > 5 ? adapted * rectified : 1);
    }
}

/* p <- p - rate x; with momentum, x is replaced by b <- momentum b + x, or with Nesterov by x +
 * momentum b. */
static void descend(const move *m, double rate, const double *x) {
    const dl_step_options *step_options = m->w->s->step_options;
    double momentum = number(m->w, "momentum", 0.9);
    double *b = step_options->momentum ? kept(m, "momentum_buffer") : NULL;
    for (int64_t i = 0; i < m->n; i++) {
        double along = x[i];
        if (b) b[i] = momentum * b[i] + x[i], along = b[i];
        if (b && step_options->nesterov && step_options->optimizer == DL_OPT_sgd)
            along = x[i] + momentum * b[i];
        m->p[i] -= rate * along;
    }
    if (b) keep(m, "momentum_buffer", b);
}

static void rmsprop(const move *m) {
    double share = number(m->w, "alpha", 0.99), eps = number(m->w, "eps", 1e-8);
    double *square = average(m, "square_avg", share, true);
    double *mean = m->w->s->step_options->centered ? average(m, "grad_avg", share, false) : NULL;
    double *x = DL_NEWS(m->w->arena, double, m->n + 1);
    for (int64_t i = 0; i < m->n; i++) {
        double spread = mean ? fmax(square[i] - mean[i] * mean[i], 0) : square[i];
        x[i] = m->g[i] / (sqrt(spread) + eps);
    }
    descend(m, m->w->rate, x);
}

static void adagrad(const move *m) {
    double rate = m->w->rate / (1 + (m->w->taken - 1) * number(m->w, "lr_decay", 0));
    double eps = number(m->w, "eps", 1e-10), *sum = kept(m, "sum");
    for (int64_t i = 0; i < m->n; i++) {
        sum[i] += m->g[i] * m->g[i];
        m->p[i] -= rate * m->g[i] / (sqrt(sum[i]) + eps);
    }
    keep(m, "sum", sum);
}

static void adadelta(const move *m) {
    double rho = number(m->w, "rho", 0.9), eps = number(m->w, "eps", 1e-6);
    double *square = average(m, "square_avg", rho, true), *moved = kept(m, "acc_delta");
    for (int64_t i = 0; i < m->n; i++) {
        double d = sqrt(moved[i] + eps) / sqrt(square[i] + eps) * m->g[i];
        moved[i] = rho * moved[i] + (1 - rho) * d * d;
        m->p[i] -= m->w->rate * d;
    }
    keep(m, "acc_delta", moved);
}

static void take(const move *m) {
    switch (m->w->s->step_options->optimizer) {
    case DL_OPT_adam:
    case DL_OPT_adamw: adam(m); break;
    case DL_OPT_adamax: adamax(m); break;
    case DL_OPT_nadam: nadam(m); break;
    case DL_OPT_radam: radam(m); break;
    case DL_OPT_sgd: descend(m, m->w->rate, m->g); break;
    case DL_OPT_rmsprop: rmsprop(m); break;
    case DL_OPT_adagrad: adagrad(m); break;
    case DL_OPT_adadelta: adadelta(m); break;
    case DL_OPT_NONE: break;
    }
}

/* Weight decay: of the parameter itself, or added to its gradient. */
static void decay(const move *m) {
    const dl_step_options *step_options = m->w->s->step_options;
    double by = number(m->w, "weight_decay", 0);
    if (!step_options->decay || (m->of->rank < 2 && !step_options->decay_vectors)) return;
    for (int64_t i = 0; i < m->n; i++) {
        if (step_options->optimizer == DL_OPT_adamw)
            m->p[i] *= 1 - m->w->rate * by;
        else
            m->g[i] += by * m->p[i];
    }
}

/* ---- the step ---- */

static void tell(const step *w, dl_result_role role, const char *name, double value) {
    w->s->next(w->s->user, role, dl_intern(name), &value, 1);
}

static double common_norm(const step *w) {
    double sum = 0;
    for (int i = 0; i < w->s->n; i++)
        for (int64_t k = 0; k < w->s->params[i].count; k++)
            sum = hypot(sum, w->s->params[i].grad[k]);
    return sum;
}

/* The scale halves where a gradient is not finite, and doubles after a run of good steps
 * (torch.amp.GradScaler). */
static void scale_loss(step *w) {
    double scale = *w->s->old(w->s->user, w->arena, "scaler.scale", 0, 1);
    double good = *w->s->old(w->s->user, w->arena, "scaler.good", 0, 1);
    double skipped = *w->s->old(w->s->user, w->arena, "scaler.skipped", 0, 1);
    for (int i = 0; i < w->s->n; i++)
        for (int64_t k = 0; k < w->s->params[i].count; k++)
            w->sound = w->sound && isfinite(w->s->params[i].grad[k]);
    w->taken -= skipped;
    bool grows = w->sound && good + 1 == number(w, "scaler.growth_interval", 2000);
    tell(w, DL_RESULT_METRIC, DL_TAG_LOSS_SCALE, scale);
    tell(w, DL_RESULT_METRIC, DL_TAG_SKIPPED, !w->sound);
    tell(w, DL_RESULT_UPDATE, "scaler.skipped", skipped + !w->sound);
    tell(w, DL_RESULT_UPDATE, "scaler.good", w->sound && !grows ? good + 1 : 0);
    if (grows && scale <= (double)FLT_MAX / 2) scale *= 2;
    tell(w, DL_RESULT_UPDATE, "scaler.scale", w->sound ? scale : scale / 2);
}

dl_step *dl_verify_step_begin(dl_arena *arena, const dl_step_of *s) {
    step *w = DL_NEW(arena, step);
    *w = (step){.s = s, .arena = arena, .sound = true, .clip = 1};
    const double *before = s->old(s->user, arena, "optimizer.step", 0, 1);
    const double *drawn = s->old(s->user, arena, DL_RANDOM_STEP, 0, 1);
    double steps = before ? *before + 1 : 1;
    w->norm = common_norm(w), w->taken = steps,
    w->rate = rate_of(w, steps + number(w, "lr.passed", 0));
    tell(w, DL_RESULT_METRIC, DL_TAG_RATE, w->rate);
    tell(w, DL_RESULT_UPDATE, "optimizer.step", steps);
    if (drawn) tell(w, DL_RESULT_UPDATE, DL_RANDOM_STEP, *drawn + 1);
    if (dl_step_scales_loss(s->step_options)) scale_loss(w);
    if (s->step_options->clip) w->clip = fmin(1, number(w, "max_norm", 1) / (w->norm + 1e-6));
    if (s->step_options->optimizer == DL_OPT_nadam) {
        const double *past = s->old(s->user, arena, "optimizer.mu_product", 0, 1);
        double old = past ? *past : 1;
        tell(w, DL_RESULT_UPDATE, "optimizer.mu_product",
             w->sound ? old * momentum_at(w, w->taken) : old);
    }
    return w;
}

void dl_verify_step_param(dl_step *w, int i, int64_t first, int64_t n, bool counts) {
    const dl_step_param *of = &w->s->params[i];
    dl_arena *outer = w->arena;
    w->arena =
        dl_arena_new(outer); /* for these elements alone: models have many, and large parameters */
    move m = {w, of, first, n, w->s->old(w->s->user, w->arena, of->name, first, n), NULL, NULL};
    m.p = DL_NEWS(w->arena, double, n + 1), m.g = DL_NEWS(w->arena, double, n + 1);
    for (int64_t k = 0; k < n; k++) m.p[k] = m.old[k], m.g[k] = of->grad[first + k] * w->clip;
    decay(&m);
    take(&m);
    const double *next = w->sound ? m.p : m.old;
    if (counts) w->weights = hypot(w->weights, dl_verify_norm(next, n));
    w->s->next(w->s->user, DL_RESULT_UPDATE, of->name, next, n);
    dl_arena_free(w->arena);
    w->arena = outer;
}

void dl_verify_step_end(dl_step *w) {
    if (!w->s->step_options->norms) return;
    tell(w, DL_RESULT_METRIC, DL_TAG_GRAD_NORM, w->norm);
    tell(w, DL_RESULT_METRIC, DL_TAG_WEIGHT_NORM, w->weights);
}

void dl_verify_step(dl_arena *arena, const dl_step_of *s) {
    dl_step *w = dl_verify_step_begin(arena, s);
    for (int i = 0; i < s->n; i++) dl_verify_step_param(w, i, 0, s->params[i].count, true);
    dl_verify_step_end(w);
}
