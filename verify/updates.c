/* Compares the updates of a small graph with the optimiser's definition (step.c), through some
 * thirty steps. */
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

typedef struct {
    dl_arena *arena;
    const dl_graph *g;
    dl_interp *in;
    dl_verdict *v;
    int step, faults;
    double **kept; /* by variable of g: its value before the step */
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

/* Hyperparameters for which each part of a definition has an effect. */
static double hyper_of(const char *name, double first) {
    static const struct {
        const char *name;
        double value;
    } numbers[] = {{"lr.init", 0.1},         {"lr.end", 0.013},
                   {"lr.total", 19},         {"lr.warmup", 4},
                   {"lr.passed", 1},         {"lr.steps", 5},
                   {"lr.scale", 0.7},        {"lr.unit", 2},
                   {"lr.warmup.from", 0.25}, {"beta1", 0.85},
                   {"beta2", 0.93},          {"eps", 3e-3},
                   {"weight_decay", 0.06},   {"momentum", 0.8},
                   {"alpha", 0.9},           {"rho", 0.87},
                   {"lr_decay", 0.03},       {"momentum_decay", 0.02},
                   {"max_norm", 2.5},        {"scaler.growth_interval", 4}};
    const char *end = strncmp(name, "optimizer.", 10) == 0 ? name + 10 : name;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, end) == 0) return numbers[i].value;
    int range;
    char what[16];
    if (sscanf(end, "lr.phase.%d.%15s", &range, what) == 2) {
        static const char *const members[] = {"from", "to", "length", "by", "down", "fade"};
        static const double values[] = {0.11, 0.02, 1.5, 2, 2.5, 0.5};
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            if (strcmp(members[i], what) == 0) return values[i] / (what[0] == 'f' ? 1 + range : 1);
        return range; /* start */
    }
    if (sscanf(end, "lr.range.%d.%15s", &range, what) != 2) return first;
    return strcmp(what, "factor") == 0  ? 1 / (2.0 + range)
           : strcmp(what, "start") == 0 ? range
                                        : range + 1.0 + (range % 2);
}

/* loss = sum(x w) + sum(z b): the gradients of w and b are x and z. */
static dl_module *build_trial(dl_arena *arena) {
    dl_module *m = dl_module_new(arena);
    dl_graph *g = dl_graph_new(m, dl_intern("train"));
    dl_builder b = {.graph = g};
    dl_type matrix = dl_scalar(DL_F32), vector = matrix;
    dl_type_push(&matrix, "A", 3), dl_type_push(&matrix, "B", 4), dl_type_push(&vector, "B", 4);
    dl_value *sum = NULL;
    for (int i = 0; i < 2; i++) {
        dl_type t = i ? vector : matrix;
        dl_var *p = dl_graph_var(g, DL_VAR_PARAM, dl_intern(i ? "bias" : "weight"), t, (dl_init){0},
                                 b.loc),
               *x = dl_graph_var(g, DL_VAR_INPUT, dl_intern(i ? "z" : "x"), t, (dl_init){0}, b.loc);
        dl_value *part =
            dl_build_reduce(&b, DL_OP_sum, dl_build2(&b, DL_OP_mul, &x->value, &p->value), 0, NULL);
        sum = sum ? dl_build2(&b, DL_OP_add, sum, part) : part;
    }
    dl_graph_result(g, DL_RESULT_LOSS, dl_intern("loss"), sum, NULL);
    return m;
}

static void begin_trial(trial *t) {
    for (int i = 0; i < t->g->vars.n; i++) {
        const dl_var *v = t->g->vars.at[i];
        double *x = dl_interp_data(t->in, &v->value),
               first = v->init.kind == DL_INIT_CONST ? v->init.a : 0;
        int64_t n = dl_type_count(&v->value.type);
        for (int64_t k = 0; k < n; k++) {
            x[k] = v->role == DL_VAR_PARAM ? dl_verify_normal(21, (uint64_t)k) : first;
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
        for (int64_t k = 0; v->role == DL_VAR_INPUT && k < n; k++)
            x[k] =
                (lost && k == 1 ? INFINITY : 1) *
                dl_verify_normal(100 + (uint64_t)(t->step * 2 + (v->name[0] == 'z')), (uint64_t)k);
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
    t.in = dl_interp_new(t.g, false);
    begin_trial(&t);
    bool ok = true;
    for (t.step = 1; ok && t.step <= STEPS && !t.faults; t.step++) {
        feed_trial(&t, dl_step_scales_loss(step_options) && t.step == LOST);
        dl_step_param params[] = {{"weight", 12, 2, trial_old(&t, NULL, "x", 0, 12), 4, 3},
                                  {"bias", 4, 1, trial_old(&t, NULL, "z", 0, 4), 4, 1}};
        dl_step_of of = {step_options, 2, params, trial_old, trial_next, &t};
        ok = dl_interp_run(t.in, err);
        if (ok) dl_verify_step(scratch, &of);
    }
    dl_interp_free(t.in);
    dl_arena_free(scratch);
    return ok;
}
