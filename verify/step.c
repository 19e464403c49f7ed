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
    return dl_verify_hyper(w->s, w->arena, name, fallback);
}

double dl_verify_state_start(const dl_step_options *o, const char *name) {
    if (strcmp(name, "sum") == 0) return o->accumulator;             /* Adagrad */
    if (strcmp(name, "mu_product") == 0) return 1;                   /* NAdam */
    if (strcmp(name, "scaler.scale") == 0) return 65536;             /* torch.amp.GradScaler */
    return strcmp(name, "step_size") == 0 ? (double)NAN : (double)0; /* Rprop's is the rate */
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
    if (m->w->s->step_options->amsgrad && m->w->s->step_options->optimizer != DL_OPT_muon) {
        double *most = kept(m, "max_exp_avg_sq");
        for (int64_t i = 0; i < m->n; i++) most[i] = fmax(most[i], square[i]);
        keep(m, "max_exp_avg_sq", most), square = most;
    }
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
    double momentum = step_options->momentum ? number(m->w, "momentum", 0.9) : 0;
    double *b = step_options->momentum ? kept(m, "momentum_buffer") : NULL;
    bool dampens = b && step_options->dampens && step_options->optimizer == DL_OPT_sgd;
    double dampening = dampens ? number(m->w, "dampening", 0) : 0;
    for (int64_t i = 0; i < m->n; i++) {
        double along = x[i];
        double fresh = dampens && m->w->taken > 1 ? (1 - dampening) * x[i] : x[i];
        if (b) b[i] = (dampens && m->w->taken == 1 ? 0 : momentum * b[i]) + fresh, along = b[i];
        if (b && step_options->nesterov && step_options->optimizer != DL_OPT_rmsprop)
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

static void lion(const move *m) {
    double b1 = number(m->w, "beta1", 0.9), b2 = number(m->w, "beta2", 0.99);
    double *mean = kept(m, "exp_avg");
    for (int64_t i = 0; i < m->n; i++) {
        double along = b1 * mean[i] + (1 - b1) * m->g[i];
        m->p[i] -= m->w->rate * ((along > 0) - (along < 0));
        mean[i] = b2 * mean[i] + (1 - b2) * m->g[i];
    }
    keep(m, "exp_avg", mean);
}

static void rprop(const move *m) {
    double *before = kept(m, "prev"), *size = kept(m, "step_size");
    for (int64_t i = 0; i < m->n; i++) {
        double turn = m->g[i] * before[i], first = m->w->taken == 1 ? m->w->rate : size[i];
        double by = turn > 0   ? number(m->w, "etaplus", 1.2)
                    : turn < 0 ? number(m->w, "etaminus", 0.5)
                               : 1;
        size[i] =
            fmin(fmax(first * by, number(m->w, "step_min", 1e-6)), number(m->w, "step_max", 50));
        before[i] = turn < 0 ? 0 : m->g[i];
        m->p[i] -= size[i] * ((before[i] > 0) - (before[i] < 0));
    }
    keep(m, "prev", before), keep(m, "step_size", size);
}

static void asgd(const move *m) {
    double lambd = number(m->w, "lambd", 1e-4), before = m->w->taken - 1, rate = m->w->rate;
    double eta = rate / pow(1 + lambd * rate * before, number(m->w, "alpha", 0.75));
    double mu = 1 / fmax(1, before - number(m->w, "t0", 1e6)), *mean = kept(m, "ax");
    for (int64_t i = 0; i < m->n; i++) {
        m->p[i] = m->p[i] * (1 - lambd * eta) - eta * m->g[i];
        mean[i] += mu * (m->p[i] - mean[i]);
    }
    keep(m, "ax", mean);
}

/* ---- steps that need the whole parameter ---- */

bool dl_verify_step_whole(const dl_step_options *o) {
    return o->optimizer == DL_OPT_lamb || o->optimizer == DL_OPT_lars ||
           o->optimizer == DL_OPT_adafactor || o->optimizer == DL_OPT_muon;
}

static bool decays(const move *m) {
    const dl_step_options *o = m->w->s->step_options;
    return o->decay && (m->of->rank > 1 || o->decay_vectors);
}

static void lamb(const move *m) {
    double b1 = number(m->w, "beta1", 0.9), b2 = number(m->w, "beta2", 0.999), t = m->w->taken;
    double eps = number(m->w, "eps", 1e-6), by = decays(m) ? number(m->w, "weight_decay", 0) : 0;
    double *mean = average(m, "exp_avg", b1, false), *square = average(m, "exp_avg_sq", b2, true);
    double *way = DL_NEWS(m->w->arena, double, m->n + 1), size = dl_verify_norm(m->p, m->n);
    for (int64_t i = 0; i < m->n; i++)
        way[i] =
            mean[i] / (1 - pow(b1, t)) / (sqrt(square[i] / (1 - pow(b2, t))) + eps) + by * m->p[i];
    double length = dl_verify_norm(way, m->n), trust = size > 0 && length > 0 ? size / length : 1;
    for (int64_t i = 0; i < m->n; i++) m->p[i] -= m->w->rate * trust * way[i];
}

static void lars(const move *m) {
    double size = dl_verify_norm(m->p, m->n), slope = dl_verify_norm(m->g, m->n);
    double by = decays(m) ? number(m->w, "weight_decay", 0) : 0, trust = 1;
    if (m->of->rank > 1 && size > 0 && slope > 0)
        trust =
            number(m->w, "trust", 1e-3) * size / (slope + by * size + number(m->w, "eps", 1e-8));
    for (int64_t i = 0; i < m->n; i++) m->g[i] = trust * (m->g[i] + by * m->p[i]);
    descend(m, m->w->rate, m->g);
}

/* A state of other size than the parameter, n numbers: before the step, and after it. */
static double *summary(const move *m, const char *what, int64_t n) {
    move of = *m;
    of.n = n;
    return kept(&of, what);
}
static void keep_summary(const move *m, const char *what, double *next, int64_t n) {
    move of = *m;
    of.n = n;
    keep(&of, what, next);
}

/* The means of squares of rows and columns of matrices of C columns, and their outer product over
 * the mean of the rows'. */
static void factored(const move *m, double share, double eps, double *v) {
    int64_t c = m->of->columns, r = m->of->rows;
    int64_t matrices = m->n / (r * c);
    double *rows = summary(m, "row_var", matrices * r),
           *columns = summary(m, "col_var", matrices * c);
    for (int64_t i = 0; i < matrices * r; i++) rows[i] *= 1 - share;
    for (int64_t i = 0; i < matrices * c; i++) columns[i] *= 1 - share;
    for (int64_t i = 0; i < m->n; i++) {
        double square = share * m->g[i] * m->g[i];
        rows[i / c] += square / (double)c, columns[i / (r * c) * c + i % c] += square / (double)r;
    }
    for (int64_t i = 0; i < m->n; i++) {
        int64_t matrix = i / (r * c);
        double all = 0;
        for (int64_t k = 0; k < r; k++) all += rows[matrix * r + k] / (double)r;
        v[i] = rows[i / c] * columns[matrix * c + i % c] / fmax(all, eps);
    }
    keep_summary(m, "row_var", rows, matrices * r);
    keep_summary(m, "col_var", columns, matrices * c);
}

static void adafactor(const move *m) {
    double t = m->w->taken, share = pow(t, number(m->w, "beta2_decay", -0.8));
    double eps = number(m->w, "eps", 0x1p-23), count = sqrt((double)m->n);
    double *way = DL_NEWS(m->w->arena, double, m->n + 1), *v = way;
    double size = dl_verify_norm(m->old, m->n) / count;
    if (m->of->rank > 1)
        factored(m, share, eps, v);
    else
        v = average(m, "variance", 1 - share, true);
    for (int64_t i = 0; i < m->n; i++) way[i] = m->g[i] / sqrt(fmax(v[i], eps * eps));
    double length = dl_verify_norm(way, m->n) / count / number(m->w, "d", 1);
    double pace = fmax(size, number(m->w, "eps_step", 1e-3)) * fmin(m->w->rate, 1 / sqrt(t));
    for (int64_t i = 0; i < m->n; i++) m->p[i] -= pace / fmax(length, 1) * way[i];
}

/* to[i, j] = sum over k of x[i, k] y[k, j], with strides */
static double *times(const move *m, const double *x, const double *y, int64_t n, int64_t all,
                     int64_t c, bool turned) {
    double *to = DL_NEWS(m->w->arena, double, n *c + 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++)
            for (int64_t k = 0; k < all; k++)
                to[i * c + j] += x[i * all + k] * (turned ? y[j * all + k] : y[k * c + j]);
    return to;
}

static void muon(const move *m) {
    if (m->of->rank != 2) {
        adam(m);
        return;
    }
    double share = number(m->w, "momentum", 0.95), *b = average(m, "momentum_buffer", share, false);
    int64_t c = m->of->columns, r = m->n / c;
    bool tall = r > c; /* x is the matrix, or its transpose, of fewer rows than columns */
    double *x = DL_NEWS(m->w->arena, double, m->n + 1);
    for (int64_t i = 0; i < m->n; i++) {
        double u = m->w->s->step_options->nesterov ? share * b[i] + (1 - share) * m->g[i] : b[i];
        x[tall ? i % c * r + i / c : i] = u;
    }
    double size = fmax(dl_verify_norm(x, m->n), 1e-7);
    int64_t n = tall ? c : r, all = tall ? r : c;
    for (int64_t i = 0; i < m->n; i++) x[i] /= size;
    for (int round = 0; round < 5; round++) {
        double *gram = times(m, x, x, n, all, n, true),
               *square = times(m, gram, gram, n, n, n, false);
        for (int64_t i = 0; i < n * n; i++) gram[i] = -4.775 * gram[i] + 2.0315 * square[i];
        double *moved = times(m, gram, x, n, n, all, false);
        for (int64_t i = 0; i < m->n; i++) x[i] = 3.4445 * x[i] + moved[i];
    }
    for (int64_t i = 0; i < m->n; i++)
        m->p[i] -= m->w->rate * 0.2 * sqrt((double)all) * x[tall ? i % c * r + i / c : i];
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
    case DL_OPT_lion: lion(m); break;
    case DL_OPT_rprop: rprop(m); break;
    case DL_OPT_asgd: asgd(m); break;
    case DL_OPT_lamb: lamb(m); break;
    case DL_OPT_lars: lars(m); break;
    case DL_OPT_adafactor: adafactor(m); break;
    case DL_OPT_muon: muon(m); break;
    case DL_OPT_NONE: break;
    }
}

/* Weight decay: of the parameter itself, or added to its gradient. */
static void decay(const move *m) {
    const dl_step_options *step_options = m->w->s->step_options;
    if (!step_options->decay || (m->of->rank < 2 && !step_options->decay_vectors)) return;
    dl_optimizer which = step_options->optimizer;
    if (which == DL_OPT_lamb || which == DL_OPT_lars || which == DL_OPT_rprop) return;
    double by = number(m->w, "weight_decay", 0);
    for (int64_t i = 0; i < m->n; i++) {
        if (which == DL_OPT_adamw || which == DL_OPT_lion || which == DL_OPT_adafactor ||
            which == DL_OPT_muon)
            m->p[i] *= 1 - m->w->rate * by;
        else
            m->g[i] += by * m->p[i];
    }
}

/* torch.nn.utils.clip_grad_value_ */
static void clip_elements(const move *m) {
    const double most = number(m->w, "max_value", 1);
    for (int64_t i = 0; i < m->n; i++)
        m->g[i] = m->g[i] > most ? most : m->g[i] < -most ? -most : m->g[i];
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
    w->rate = dl_verify_rate(s, arena, steps + number(w, "lr.passed", 0));
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
    if (w->s->step_options->clip_value) clip_elements(&m);
    if (w->s->step_options->maximize)
        for (int64_t k = 0; k < n; k++) m.g[k] = -m.g[k];
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
