/* Compares each op `grad` of a model, the gradient of one value by another, with central
 * differences: the operand x moves along a direction, and y follows. The interpreter runs the
 * lowered graph, in which the gradient is made of simpler ops. Gradients of gradients are judged
 * as well, since y may itself be computed from a gradient. */
#include <math.h>
#include <stdlib.h>

#include "ir/builder.h"
#include "verify/parts.h"

enum { PARTS = 3, DIRECTIONS = 3 };
static const char *const parts[PARTS] = {"y", "x", "gradient"};
static const double steps[] = {1e-4, 1e-5, 1e-3, 0};

typedef struct {
    const dl_value *of[PARTS];
    const dl_var *delta; /* is added to x */
    dl_loc loc;
    double *data[PARTS]; /* of the last run */
    double *along;
} derivative;

typedef struct {
    dl_arena *arena;
    dl_graph *g;
    derivative *all;
    int n;
    const derivative *moved; /* the one whose x moves, */
    double h;                /* by this step */
    dl_verify_state state;
    dl_interp *in;
} model;

static const char *name_of(const model *m, int i, int part) {
    return dl_format(m->g->module->arena, "derivative.%d.%s", i, parts[part]);
}

/* Makes the operands and results of `grad` the graph's only results, which passes keep track of. */
static void mark(model *m) {
    m->g->results.n = 0;
    for (int i = 0; i < m->g->nodes.n; i++) {
        dl_node *n = m->g->nodes.at[i];
        if (n->op != DL_OP_grad) continue;
        dl_value *of[PARTS] = {n->in[0], n->in[1], &n->out[0]};
        for (int k = 0; k < PARTS; k++)
            dl_graph_result(m->g, DL_RESULT_OUTPUT, name_of(m, m->n, k), of[k], NULL);
        m->n++;
    }
}

/* x + delta in place of x, for all its readers. */
static void add_delta(model *m, derivative *d, int i, dl_node **order) {
    dl_graph *g = m->g;
    dl_value *x = (dl_value *)d->of[1];
    const char *name = dl_format(g->module->arena, "derivative.%d", i);
    dl_var *delta = dl_graph_var(g, DL_VAR_INPUT, name, x->type, (dl_init){0}, d->loc);
    dl_value *in[] = {x, &delta->value};
    int n = 0, count = g->nodes.n;
    dl_value *sum = dl_build(&(dl_builder){.graph = g}, DL_OP_add, 2, in, 0, NULL);
    dl_node *moves = g->nodes.at[count];
    if (!dl_type_same(&sum->type, &x->type)) { /* an axis without a name */
        g->nodes.n = count;
        return;
    }
    if (!x->def) order[n++] = moves;
    for (int k = 0; k < count; k++) {
        dl_node *node = g->nodes.at[k];
        for (int p = 0; p < node->nin; p++)
            if (node->in[p] == x) node->in[p] = sum;
        order[n++] = node;
        if (node == x->def) order[n++] = moves;
    }
    memcpy(g->nodes.at, order, sizeof *order * (size_t)n);
    for (int k = 0; k < m->n; k++) /* another gradient's operand may be this value */
        for (int p = 0; p < 2; p++)
            if (k != i && m->all[k].of[p] == x) m->all[k].of[p] = sum;
    d->delta = delta;
}

static void find_derivatives(model *m) {
    m->all = DL_NEWS(m->arena, derivative, m->n);
    for (int i = 0; i < m->n; i++) {
        for (int k = 0; k < PARTS; k++)
            m->all[i].of[k] =
                dl_graph_find_result(m->g, DL_RESULT_OUTPUT, dl_intern(name_of(m, i, k)))->value;
        m->all[i].loc = m->all[i].of[2]->def ? m->all[i].of[2]->def->loc : (dl_loc){0};
    }
    dl_node **order = DL_NEWS(m->arena, dl_node *, m->g->nodes.n + m->n + 1);
    for (int i = 0; i < m->n; i++) add_delta(m, &m->all[i], i, order);
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < PARTS; k++) {
            dl_result *r =
                dl_graph_find_result(m->g, DL_RESULT_OUTPUT, dl_intern(name_of(m, i, k)));
            r->value = (dl_value *)m->all[i].of[k];
            m->all[i].data[k] = DL_NEWS(m->arena, double, dl_type_count(&r->value->type) + 1);
        }
}

static void read_variable(void *user, const dl_value *v, double *to) {
    const model *m = user;
    dl_verify_state_read(&m->state, v->var, to);
    for (int i = 0; i < m->n; i++) {
        if (m->all[i].delta != v->var) continue;
        bool moves = m->moved == &m->all[i];
        for (int64_t k = 0; k < dl_type_count(&v->type); k++)
            to[k] = moves ? m->h * m->all[i].along[k] : 0;
    }
}

static void take(void *user, const dl_value *v, const double *data) {
    model *m = user;
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < PARTS; k++)
            if (m->all[i].of[k] == v)
                memcpy(m->all[i].data[k], data, sizeof *data * (size_t)dl_type_count(&v->type));
}

static bool run_at(model *m, double h, dl_error *err) {
    m->h = h;
    dl_interp_stream(m->in, read_variable, take, m);
    return dl_interp_run(m->in, err);
}

static bool along_line(void *user, double h, double *difference, dl_error *err) {
    model *m = user;
    if (!run_at(m, h, err)) return false;
    *difference = *m->moved->data[0];
    if (!run_at(m, -h, err)) return false;
    *difference -= *m->moved->data[0];
    return true;
}

static void add_text(model *m, dl_verdict *v, bool fault, const derivative *d, const char *text) {
    char *line = dl_format(m->arena, "grad (%s:%d:%d): %s", d->loc.file ? d->loc.file : m->g->name,
                           d->loc.line, d->loc.column, text);
    if (fault)
        dl_push(m->arena, &v->faults, line);
    else
        dl_push(m->arena, &v->skipped, line);
}

static bool judge(model *m, derivative *d, const double *x, const double *grad, dl_verdict *v,
                  dl_error *err) {
    const int64_t n = dl_type_count(&d->of[1]->type);
    const double rms = n ? dl_verify_norm(x, n) / sqrt((double)n) : 0;
    d->along = DL_NEWS(m->arena, double, n + 1);
    m->moved = d;
    if (!d->delta) return add_text(m, v, false, d, "x has an axis without a name"), true;
    for (int try = 0; try < DIRECTIONS; try++) {
        double claimed = 0, squares = 0, slope;
        bool smooth;
        for (int64_t k = 0; k < n; k++) {
            d->along[k] = fmax(rms, 1e-3) * dl_verify_normal(500 + (uint64_t)try, (uint64_t)k);
            claimed += grad[k] * d->along[k], squares += pow(grad[k] * d->along[k], 2);
        }
        if (!isfinite(claimed)) return add_text(m, v, false, d, "is not finite"), true;
        if (!dl_verify_slope(along_line, m, sqrt(squares), steps, &slope, &smooth, err))
            return false;
        if (!smooth) continue;
        v->judged.gradients++;
        if (fabs(claimed - slope) > dl_verify_slope_off * fmax(sqrt(squares), fabs(slope)))
            add_text(m, v, true, d,
                     dl_format(m->arena,
                               "%.9g along a direction, where central differences give %.9g",
                               claimed, slope));
        return true;
    }
    add_text(m, v, false, d, "its operand y is smooth along none of the directions");
    return true;
}

static bool judge_all(model *m, dl_verdict *v, dl_error *err) {
    m->in = dl_interp_new(m->g, false);
    dl_interp_release(m->in);
    bool ok = run_at(m, 0, err);
    for (int i = 0; ok && i < m->n; i++) {
        derivative *d = &m->all[i];
        const int64_t n = dl_type_count(&d->of[1]->type);
        double *x = dl_verify_copy(m->arena, d->data[1], n),
               *grad = dl_verify_copy(m->arena, d->data[2], n);
        ok = judge(m, d, x, grad, v, err);
        m->moved = NULL;
        ok = ok && run_at(m, 0, err);
    }
    dl_interp_free(m->in);
    return ok;
}

bool dl_verify_derivatives(dl_arena *arena, dl_module *written, const char *graph,
                           const dl_plan *plan, const dl_verify_run *run, dl_verdict *v,
                           dl_error *err) {
    model m = {.arena = arena, .g = dl_module_graph(written, graph)};
    mark(&m);
    if (!m.n) return true;
    if (dl_verify_run_cost(m.g) > 1e9) {
        char *why = dl_format(arena,
                              "gradients that the model's text takes, in graph '%s', which "
                              "is too large: verify a smaller batch or --data_size",
                              graph);
        dl_push(arena, &v->skipped, why);
        return true;
    }
    if (!run->passes(written, "lower", run->user, err)) return false;
    find_derivatives(&m);
    dlr_exec *exec = dlr_exec_open(plan, run->exec, err);
    bool ok = exec && run->fill(exec, run->user, err);
    if (ok) m.state = dl_verify_state_of(exec), ok = judge_all(&m, v, err);
    dlr_exec_close(exec);
    return ok;
}
