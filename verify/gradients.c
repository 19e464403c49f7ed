/* Gradients of the whole model's loss beside its central differences: along one direction in which all
 * parameters move, each by as much of the loss as the others; and where that disagrees, along ever fewer of
 * them, until it says whose gradient it is. */
#include <math.h>
#include <stdlib.h>

#include "verify/parts.h"

enum { DIRECTIONS = 2 };
/* Each takes four runs of the model. The loss's own rounding, of a sum of millions, asks for no smaller ones;
 * kinks, which are held, for none. */
static const double steps[] = {1e-4, 1e-3, 1e-5, 0};

typedef struct {
    const dl_var *var; /* of the graph as written */
    const double *grad, *at;
    double *along;
    int64_t n;
    double share; /* gradient times direction */
} moved;

typedef struct {
    dl_arena *arena;
    dl_written *w;
    const dl_verify_state *s;
    const dl_result *loss;
    moved *all;
    int n, from, to; /* those that move: [from, to) */
} model;

static bool put(model *m, double h, dl_error *err) {
    if (!dl_verify_state_put(m->s, m->w->in, m->w->g, err)) return false;
    for (int i = m->from; i < m->to; i++) {
        double *x = dl_interp_data(m->w->in, &m->all[i].var->value);
        for (int64_t k = 0; k < m->all[i].n; k++) x[k] = m->all[i].at[k] + h * m->all[i].along[k];
    }
    return true;
}

static bool along_line(void *user, double h, double *difference, dl_error *err) {
    model *m = user;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        if (!put(m, side ? -h : h, err) || !dl_written_run(m->w, err)) return false;
        loss[side] = *dl_interp_data(m->w->in, m->loss->value);
    }
    *difference = loss[0] - loss[1];
    return true;
}

/* A direction of each parameter's size; scaled so that none moves the loss much more than the others. */
static void choose_direction(model *m, uint64_t seed) {
    double least = INFINITY;
    for (int i = 0; i < m->n; i++) {
        moved *p = &m->all[i];
        double rms = p->n ? dl_verify_norm(p->at, p->n) / sqrt((double)p->n) : 0, squares = 0;
        if (!(rms > 1e-3)) rms = 1e-3;
        for (int64_t k = 0; k < p->n; k++) {
            p->along[k] = rms * dl_verify_normal(seed + (uint64_t)i, (uint64_t)k);
            squares += p->grad[k] * p->along[k] * (p->grad[k] * p->along[k]);
        }
        p->share = sqrt(squares);
        if (p->share > 0 && p->share < least) least = p->share;
    }
    for (int i = 0; i < m->n; i++) {
        moved *p = &m->all[i];
        double by = p->share > least ? fmax(least / p->share, 1e-3) : 1, sum = 0;
        for (int64_t k = 0; k < p->n; k++) sum += p->grad[k] * (p->along[k] *= by);
        p->share = sum;
    }
}

/* What the gradients say of the direction in which [from, to) move, and how large that is about. */
static double claim(const model *m, double *size) {
    double sum = 0;
    *size = 0;
    for (int i = m->from; i < m->to; i++) sum += m->all[i].share, *size = hypot(*size, m->all[i].share);
    return sum;
}

enum { AGREES, DISAGREES, ROUGH };
static int compare(model *m, double *claimed, double *slope, dl_error *err) {
    double size;
    bool smooth;
    *claimed = claim(m, &size);
    if (!dl_verify_slope(along_line, m, size, steps, slope, &smooth, err)) return -1;
    if (!smooth) return ROUGH;
    return fabs(*claimed - *slope) <= dl_verify_slope_off * fmax(size, fabs(*slope)) ? AGREES : DISAGREES;
}

/* The first parameter by itself whose gradient disagrees: half by half. */
static int narrow(model *m, double *claimed, double *slope, dl_error *err) {
    int low = 0, high = m->n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        m->from = low, m->to = middle;
        int what = compare(m, claimed, slope, err);
        if (what < 0) return -1;
        if (what == DISAGREES)
            high = middle;
        else
            low = middle;
    }
    m->from = low, m->to = high;
    if (compare(m, claimed, slope, err) < 0) return -1;
    return low;
}

static bool judge(model *m, dl_verdict *v, dl_error *err) {
    double claimed, slope;
    for (uint64_t d = 0; d < DIRECTIONS; d++) {
        choose_direction(m, 100 * (d + 1));
        m->from = 0, m->to = m->n;
        int what = compare(m, &claimed, &slope, err);
        if (what < 0) return false;
        if (what == ROUGH) continue;
        v->judged.gradients += m->n;
        if (what == AGREES) return true;
        int at = narrow(m, &claimed, &slope, err);
        if (at < 0) return false;
        char *fault =
            dl_format(m->arena,
                      "the gradient of '%s' is not the loss's derivative: %.9g along a direction, where "
                      "central differences of the model as written give %.9g",
                      m->all[at].var->name, claimed, slope);
        dl_push(m->arena, &v->faults, fault);
        return true;
    }
    char *why = dl_format(m->arena,
                          "gradients of the whole model: its loss is smooth along none of %d directions "
                          "(each op's are judged by themselves)",
                          DIRECTIONS);
    dl_push(m->arena, &v->skipped, why);
    return true;
}

bool dl_verify_gradients(dl_arena *arena, dl_written *w, const dl_graph *derived, double *const *grads,
                         const dl_verify_state *s, dl_verdict *v, dl_error *err) {
    model m = {.arena = arena, .w = w, .s = s, .loss = dl_graph_find_result(w->g, DL_RESULT_LOSS, NULL)};
    m.all = DL_NEWS(arena, moved, derived->results.n + 1);
    for (int i = 0; i < derived->results.n; i++) {
        const dl_result *r = &derived->results.at[i];
        const dl_var *var = r->role == DL_RESULT_GRAD ? dl_graph_find_var(w->g, r->name) : NULL;
        if (!var) continue;
        int64_t n = dl_type_count(&var->value.type);
        const double *at = dl_verify_state_find(s, r->name);
        if (!n || !at) continue;
        for (int64_t k = 0; k < n; k++)
            if (!isfinite(grads[i][k])) {
                char *why =
                    dl_format(arena, "gradients of the whole model: that of '%s' is not finite", r->name);
                dl_push(arena, &v->skipped, why);
                return true;
            }
        m.all[m.n++] = (moved){var, grads[i], at, DL_NEWS(arena, double, n + 1), n, 0};
    }
    if (!m.loss || !m.n) {
        char *why = dl_format(arena, "gradients: the model has no loss that depends on a parameter");
        dl_push(arena, &v->skipped, why);
        return true;
    }
    w->holds = true, w->look = NULL; /* from here: at the parameters themselves */
    return put(&m, 0, err) && dl_written_run(w, err) && judge(&m, v, err);
}
