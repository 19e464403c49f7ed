/* Compares the updates of a small graph with the optimiser's definition (step.c), through some
 * thirty steps; and the first values of hyperparameters and state. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/builder.h"
#include "verify/parts.h"

static bool same_name(const dl_result *r, dl_result_role role, const char *name) {
    return r->role == role && strcmp(r->name, name) == 0;
}

/* ---- a small graph, step by step ---- */

enum { STEPS = 30, LOST = 6 /* the step whose gradient is infinite, where the loss is scaled */ };

/* The parameters, and the inputs that are their gradients; without a norm at first, without a
 * gradient, without either. */
static const struct {
    const char *name, *gradient;
    bool vector, zero, idle;
} params[] = {{"weight", "x", false, false, false},
              {"bias", "z", true, false, false},
              {"zero", "u", false, true, false},
              {"idle", "v", false, false, true},
              {"still", "w", false, true, true}};
enum { PARAMS = sizeof params / sizeof *params, ROWS = 3, COLUMNS = 4 };

typedef struct {
    dl_arena *arena;
    const dl_graph *g;
    dl_interp *in;
    dl_verdict *v;
    int step, faults;
    double **kept; /* by variable of g: its value before the step */
    bool *asked;   /* by variable of g: a hyperparameter whose default was compared */
} trial;

static int var_at(const dl_graph *g, const char *name) {
    for (int i = 0; i < g->vars.n; i++)
        if (strcmp(g->vars.at[i]->name, name) == 0) return i;
    return -1;
}

static const double *trial_old(void *user, dl_arena *arena, const char *name, int64_t first,
                               int64_t n) {
    const trial *t = user;
    (void)arena, (void)n;
    int i = var_at(t->g, name);
    return i < 0 ? NULL : t->kept[i] + first;
}

static const char *role_text(dl_result_role role) { return dl_result_roles[role]; }

/* Compares a step's value with the expected one. */
static void trial_next(void *user, dl_result_role role, const char *name, const double *want,
                       int64_t n) {
    trial *t = user;
    const dl_value *at = NULL;
    for (int i = 0; i < t->g->results.n; i++) {
        const dl_result *r = &t->g->results.at[i];
        if (same_name(r, role, name)) at = role == DL_RESULT_UPDATE ? &r->var->value : r->value;
    }
    if (!at) {
        if (t->step > 1) return;
        char *fault = dl_format(t->arena, "the step has no %s '%s'", role_text(role), name);
        dl_push(t->arena, &t->v->faults, fault);
        return;
    }
    const double *got = dl_interp_data(t->in, at);
    double off = dl_verify_distance(got, want, n), size = dl_verify_norm(want, n);
    t->v->judged.updates++;
    if (off <= 1e-10 * size || t->faults++ > 3) return;
    char *fault = dl_format(
        t->arena,
        "%s '%s' of step %d is not the optimiser's: %.9g, where its definition makes %.9g",
        role_text(role), name, t->step, got[0], want[0]);
    for (int64_t i = 0; i < n; i++)
        if (fabs(got[i] - want[i]) > 1e-10 * size) {
            fault = dl_format(
                t->arena,
                "%s '%s' of step %d is not the optimiser's: %.9g, where its definition makes %.9g",
                role_text(role), name, t->step, got[i], want[i]);
            break;
        }
    dl_push(t->arena, &t->v->faults, fault);
}

/* Compares a hyperparameter's first value with its default in the definition. */
static void trial_asked(void *user, const char *name, double fallback) {
    trial *t = user;
    const int i = var_at(t->g, name);
    /* a definition takes the numbers of a rate whether its schedule has them or not */
    if (i < 0 && strncmp(name, "optimizer.lr.", 13) != 0 && !t->faults++)
        dl_push(t->arena, &t->v->faults, dl_format(t->arena, "the step does not read '%s'", name));
    if (i < 0 || t->asked[i]) return;
    const dl_init *first = &t->g->vars.at[i]->init;
    const double got = first->kind == DL_INIT_CONST ? first->a : 0;
    t->asked[i] = true, t->v->judged.updates++;
    if (got == fallback) return;
    dl_push(t->arena, &t->v->faults,
            dl_format(t->arena, "'%s' begins as %.9g, where its definition has %.9g", name, got,
                      fallback));
}

/* Compares the first values of the states with the definition's. */
static void judge_starts(trial *t, const dl_step_options *o) {
    for (int i = 0; i < t->g->vars.n; i++) {
        const dl_var *v = t->g->vars.at[i];
        if (v->role != DL_VAR_STATE) continue;
        const bool shared = strncmp(v->name, "optimizer.", 10) == 0;
        const size_t n = v->of ? strlen(v->name) - strlen(v->of) - 1 : strlen(v->name);
        const char *what = shared ? v->name + 10 : dl_internf("%.*s", (int)n, v->name);
        const double got = v->init.kind == DL_INIT_CONST ? v->init.a : 0,
                     want = dl_verify_state_start(o, what);
        if (!(got != want) || isnan(want)) continue;
        dl_push(t->arena, &t->v->faults,
                dl_format(t->arena, "'%s' begins as %.9g, where its definition has %.9g", v->name,
                          got, want));
    }
}

/* Hyperparameters for which each part of a definition has an effect. */
static double hyper_of(const char *name, double first) {
    static const struct {
        const char *name;
        double value;
    } numbers[] = {{"lr.init", 0.1},       {"lr.end", 0.013},  {"lr.total", 19},
                   {"lr.warmup", 4},       {"lr.passed", 1},   {"lr.steps", 5},
                   {"lr.scale", 0.7},      {"lr.unit", 1.25},  {"lr.warmup.from", 0.25},
                   {"beta1", 0.85},        {"beta2", 0.93},    {"eps", 0.3},
                   {"weight_decay", 0.06}, {"momentum", 0.8},  {"alpha", 0.9},
                   {"rho", 0.87},          {"lr_decay", 0.03}, {"momentum_decay", 0.02},
                   {"max_norm", 2.5},      {"max_value", 0.4}, {"scaler.growth_interval", 4},
                   {"dampening", 0.3},     {"step_min", 0.04}, {"step_max", 0.13},
                   {"lambd", 0.02},        {"t0", 9},          {"d", 0.7}};
    const char *end = strncmp(name, "optimizer.", 10) == 0 ? name + 10 : name;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, end) == 0) return numbers[i].value;
    int range;
    char what[16];
    if (sscanf(end, "lr.phase.%d.%15s", &range, what) == 2) {
        static const char *const members[] = {"from", "to", "length", "by", "down", "fade"};
        static const double values[] = {0.11, 0.02, 2, 2, 1.5, 0.5};
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            if (strcmp(members[i], what) == 0) return values[i] / (what[0] == 'f' ? 1 + range : 1);
        return 5 * range; /* start: each goes on for some units */
    }
    if (sscanf(end, "lr.range.%d.%15s", &range, what) != 2) return first;
    /* the first goes on after the others have ended */
    return strcmp(what, "factor") == 0  ? 1 / (2.0 + range)
           : strcmp(what, "start") == 0 ? range
           : range                      ? range + 1.0
                                        : 5;
}

/* loss = sum(x weight) + sum(z bias) + ...: the gradient of weight is x, that of bias is z. */
static dl_module *build_trial(dl_arena *arena) {
    dl_module *m = dl_module_new(arena);
    dl_graph *g = dl_graph_new(m, dl_intern("train"));
    dl_builder b = {.graph = g};
    dl_value *sum = NULL;
    for (int i = 0; i < PARAMS; i++) {
        dl_type t = dl_scalar(DL_F32);
        if (!params[i].vector) dl_type_push(&t, "A", ROWS);
        dl_type_push(&t, "B", COLUMNS);
        dl_var *p =
                   dl_graph_var(g, DL_VAR_PARAM, dl_intern(params[i].name), t, (dl_init){0}, b.loc),
               *x = dl_graph_var(g, DL_VAR_INPUT, dl_intern(params[i].gradient), t, (dl_init){0},
                                 b.loc);
        dl_value *part =
            dl_build_reduce(&b, DL_OP_sum, dl_build2(&b, DL_OP_mul, &x->value, &p->value), 0, NULL);
        sum = sum ? dl_build2(&b, DL_OP_add, sum, part) : part;
    }
    dl_graph_result(g, DL_RESULT_LOSS, dl_intern("loss"), sum, NULL);
    return m;
}

/* The parameter of this name, or whose gradient has it; PARAMS: none. */
static int param_at(const char *name) {
    int i = 0;
    while (i < PARAMS && strcmp(params[i].name, name) != 0 && strcmp(params[i].gradient, name) != 0)
        i++;
    return i;
}

/* The first number of a state. A mean whose square is above the mean of squares, as rounding can
 * leave it, is no variance below zero. */
static double state_of(const char *name, double first) {
    return strncmp(name, "grad_avg.", 9) == 0 ? 0.5 : first;
}

static void begin_trial(trial *t) {
    for (int i = 0; i < t->g->vars.n; i++) {
        const dl_var *v = t->g->vars.at[i];
        double *x = dl_interp_data(t->in, &v->value),
               first = v->init.kind == DL_INIT_CONST ? v->init.a : 0;
        int64_t n = dl_type_count(&v->value.type);
        for (int64_t k = 0; k < n; k++) {
            x[k] = v->role != DL_VAR_PARAM          ? state_of(v->name, first)
                   : params[param_at(v->name)].zero ? 0
                                                    : dl_verify_normal(21, (uint64_t)k);
            if (v->role == DL_VAR_HYPER) x[k] = hyper_of(v->name, first);
        }
        t->kept[i] = DL_NEWS(t->arena, double, n + 1);
    }
}

/* The inputs of a step, which are its gradients. */
static void feed_trial(trial *t, bool lost) {
    for (int i = 0; i < t->g->vars.n; i++) {
        const dl_var *v = t->g->vars.at[i];
        double *x = dl_interp_data(t->in, &v->value);
        int64_t n = dl_type_count(&v->value.type);
        const int p = v->role == DL_VAR_INPUT ? param_at(v->name) : PARAMS;
        for (int64_t k = 0; p < PARAMS && k < n; k++)
            x[k] = params[p].idle
                       ? 0
                       : (lost && k == 1 ? INFINITY : 1) *
                             dl_verify_normal(100 + (uint64_t)(t->step * PARAMS + p), (uint64_t)k);
        memcpy(t->kept[i], x, sizeof *x * (size_t)n);
    }
}

bool dl_verify_updates(dl_arena *arena, const dl_step_options *step_options,
                       const dl_verify_run *run, dl_verdict *v, dl_error *err) {
    if (step_options->optimizer == DL_OPT_NONE) return true;
    dl_arena *scratch = dl_arena_new(arena);
    dl_module *m = build_trial(scratch);
    if (!run->passes(m, "lower,autodiff,optimizer", run->user, err))
        return dl_arena_free(scratch), false;
    trial t = {.arena = arena, .g = m->graphs.at[0], .v = v};
    t.kept = DL_NEWS(arena, double *, t.g->vars.n + 1);
    t.asked = DL_NEWS(arena, bool, t.g->vars.n + 1);
    t.in = dl_interp_new(t.g, false);
    judge_starts(&t, step_options);
    begin_trial(&t);
    bool ok = true;
    for (t.step = 1; ok && t.step <= STEPS && !t.faults; t.step++) {
        feed_trial(&t, dl_step_scales_loss(step_options) && t.step == LOST);
        dl_step_param all[PARAMS];
        for (int i = 0; i < PARAMS; i++) {
            const int rows = params[i].vector ? 1 : ROWS;
            all[i] = (dl_step_param){params[i].name,
                                     rows * COLUMNS,
                                     params[i].vector ? 1 : 2,
                                     trial_old(&t, NULL, params[i].gradient, 0, 0),
                                     COLUMNS,
                                     rows};
        }
        dl_step_of of = {step_options, PARAMS, all, trial_old, trial_next, &t, trial_asked};
        ok = dl_interp_run(t.in, err);
        if (ok) dl_verify_step(scratch, &of);
    }
    for (int i = 0; ok && i < t.g->vars.n; i++)
        if (t.g->vars.at[i]->role == DL_VAR_HYPER && !t.asked[i] && !t.faults)
            dl_push(arena, &v->faults,
                    dl_format(arena, "'%s' is in no definition", t.g->vars.at[i]->name));
    dl_interp_free(t.in);
    dl_arena_free(scratch);
    return ok;
}
