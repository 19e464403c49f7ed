/* Compares gradients of the whole model's loss with central differences, or those of each objective
 * by its own parameters: along one direction in which all of these parameters move, scaled so that
 * each changes the loss equally. Where they disagree, a bisection of the parameters finds the wrong
 * gradient. */
#include <math.h>
#include <stdlib.h>

#include "verify/parts.h"

enum { DIRECTIONS = 2 };
/* Each step size takes four runs of the model. The rounding of the loss, a sum of millions,
 * excludes smaller steps; kinks, whose branches are fixed, exclude none. */
static const double steps[] = {1e-4, 1e-3, 1e-5, 0};

typedef struct {
    const dl_var *var; /* a variable of the written graph */
    const double *grad;
    float *along; /* rounded to float, as a direction is arbitrary */
    int64_t n;
    double share; /* the gradient times the direction */
} moved;

typedef struct {
    dl_arena *arena;
    dl_written *w;
    const dl_verify_state *s;
    const dl_result *loss; /* or an objective */
    moved *all;
    int n, from, to; /* the parameters that move: [from, to), */
    double h;        /* by this step */
    double value;    /* the loss there */
} model;

/* A variable of a run: its value, plus h times its direction if it moves. */
static void read_moved(void *user, const dl_value *v, double *to) {
    const model *m = user;
    dl_verify_state_read(m->s, v->var, to);
    for (int i = m->from; i < m->to && m->h != 0; i++)
        for (int64_t k = 0; m->all[i].var == v->var && k < m->all[i].n; k++)
            to[k] += m->h * (double)m->all[i].along[k];
}

static void take_loss(void *user, const dl_value *v, const double *data) {
    model *m = user;
    if (v == m->loss->value) m->value = *data;
}

static bool run_at(model *m, double h, dl_error *err) {
    m->h = h;
    dl_interp_stream(m->w->in, read_moved, take_loss, m);
    return dl_written_run(m->w, err);
}

static bool along_line(void *user, double h, double *difference, dl_error *err) {
    model *m = user;
    if (!run_at(m, h, err)) return false;
    *difference = m->value;
    if (!run_at(m, -h, err)) return false;
    *difference -= m->value;
    return true;
}

static double rms_of(const model *m, const moved *p) {
    dl_arena *scratch = dl_arena_new(m->arena);
    double *at = DL_NEWS(scratch, double, p->n + 1);
    dl_verify_state_read(m->s, p->var, at);
    double rms = p->n ? dl_verify_norm(at, p->n) / sqrt((double)p->n) : 0;
    dl_arena_free(scratch);
    return rms > 1e-3 ? rms : 1e-3;
}

/* A direction for each parameter, scaled so that no parameter changes the loss much more than the
 * others. */
static void choose_direction(model *m, uint64_t seed) {
    double least = INFINITY;
    for (int i = 0; i < m->n; i++) {
        moved *p = &m->all[i];
        double rms = rms_of(m, p), squares = 0;
        for (int64_t k = 0; k < p->n; k++) {
            p->along[k] = (float)(rms * dl_verify_normal(seed + (uint64_t)i, (uint64_t)k));
            double share = p->grad[k] * (double)p->along[k];
            squares += share * share;
        }
        p->share = sqrt(squares);
        if (p->share > 0 && p->share < least) least = p->share;
    }
    for (int i = 0; i < m->n; i++) {
        moved *p = &m->all[i];
        double by = p->share > least ? fmax(least / p->share, 1e-3) : 1, sum = 0;
        for (int64_t k = 0; k < p->n; k++) {
            p->along[k] = (float)(by * (double)p->along[k]);
            sum += p->grad[k] * (double)p->along[k];
        }
        p->share = sum;
    }
}

/* The slope along the directions of [from, to) according to the gradients; *size: its magnitude,
 * roughly. */
static double claim(const model *m, double *size) {
    double sum = 0;
    *size = 0;
    for (int i = m->from; i < m->to; i++)
        sum += m->all[i].share, *size = hypot(*size, m->all[i].share);
    return sum;
}

enum { AGREES, DISAGREES, ROUGH };
static int compare(model *m, double *claimed, double *slope, dl_error *err) {
    double size;
    bool smooth;
    *claimed = claim(m, &size);
    if (!dl_verify_slope(along_line, m, size, steps, slope, &smooth, err)) return -1;
    if (!smooth) return ROUGH;
    return fabs(*claimed - *slope) <= dl_verify_slope_off * fmax(size, fabs(*slope)) ? AGREES
                                                                                     : DISAGREES;
}

/* Finds the first parameter whose own gradient disagrees, by bisection. */
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
        char *fault = dl_format(
            m->arena,
            "the gradient of '%s' is not the loss's derivative: %.9g along a direction, where "
            "central differences of the model as written give %.9g",
            m->all[at].var->name, claimed, slope);
        dl_push(m->arena, &v->faults, fault);
        return true;
    }
    char *why =
        dl_format(m->arena,
                  "gradients of the whole model: its loss is smooth along none of %d directions "
                  "(each op's are judged by themselves)",
                  DIRECTIONS);
    dl_push(m->arena, &v->skipped, why);
    return true;
}

static bool is_finite(const double *x, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        if (!isfinite(x[k])) return false;
    return true;
}

/* Finds the parameters that move. Returns the reason why they cannot be tested, or NULL. */
static char *find_moved(model *m, dl_arena *scratch, const dl_graph *derived,
                        double *const *grads) {
    const char *by = m->loss && m->loss->role == DL_RESULT_OBJECTIVE ? m->loss->name : NULL;
    m->all = DL_NEWS(scratch, moved, derived->results.n + 1);
    for (int i = 0; i < derived->results.n; i++) {
        const dl_result *r = &derived->results.at[i];
        const dl_var *var = r->role == DL_RESULT_GRAD ? dl_graph_find_var(m->w->g, r->name) : NULL;
        int64_t n = var && (!by || var->by == by) ? dl_type_count(&var->value.type) : 0;
        if (!n || !dlr_exec_variable(m->s->exec, r->name).type) continue;
        if (!is_finite(grads[i], n))
            return dl_format(m->arena, "gradients of the whole model: that of '%s' is not finite",
                             r->name);
        m->all[m->n++] = (moved){var, grads[i], DL_NEWS(scratch, float, n + 1), n, 0};
    }
    if (m->loss && m->n) return NULL;
    return dl_format(m->arena, "gradients: the model has no loss that depends on a parameter");
}

/* The gradients of one loss. */
static bool judge_loss(dl_arena *arena, dl_written *w, const dl_result *loss,
                       const dl_graph *derived, double *const *grads, const dl_verify_state *s,
                       dl_verdict *v, dl_error *err) {
    dl_arena *scratch = dl_arena_new(arena);
    model m = {.arena = arena, .w = w, .s = s, .loss = loss};
    char *why = find_moved(&m, scratch, derived, grads);
    bool ok = true;
    if (why) {
        dl_push(arena, &v->skipped, why);
    } else {
        w->holds = true, w->look = NULL; /* from the parameters themselves on */
        ok = run_at(&m, 0, err) && judge(&m, v, err);
    }
    dl_arena_free(scratch);
    return ok;
}

bool dl_verify_gradients(dl_arena *arena, dl_written *w, const dl_graph *derived,
                         double *const *grads, const dl_verify_state *s, dl_verdict *v,
                         dl_error *err) {
    bool any = false, ok = true;
    for (int i = 0; ok && i < w->g->results.n; i++) {
        const dl_result *r = &w->g->results.at[i];
        if (r->role != DL_RESULT_OBJECTIVE) continue;
        any = true;
        ok = judge_loss(arena, w, r, derived, grads, s, v, err);
    }
    const dl_result *loss = dl_graph_find_result(w->g, DL_RESULT_LOSS, NULL);
    return any ? ok : judge_loss(arena, w, loss, derived, grads, s, v, err);
}
