/* Compares the updates of a model with the optimiser's definition (step.c) on its gradients.
 * Results arrive one by one, and only the distances of each are kept. The definition is computed
 * alongside, a part of the elements at a time, since a step of a large parameter needs many arrays
 * of its size. */
#include <math.h>

#include "verify/parts.h"

enum { BLOCK = 1 << 18 };

/* The definition's results: those that all parameters share, or some elements of one parameter's.
 */
typedef struct {
    dl_result_role role;
    const char *name;
    int64_t n;
    const double *value;
} wanted;
typedef struct {
    dl_arena *arena;
    DL_ARRAY(wanted) all;
} wants;

/* For a result: its error, the size of the step and of the value, and the effect of rounding. */
typedef struct {
    bool judged;
    double off, step, size, moved;
} distance;

struct dl_model_updates {
    dl_arena *arena;
    const dl_graph *derived, *g; /* g: the compiled graph */
    const dl_verify_state *s;
    const dl_step_options *step_options;
    dl_step_of of;
    dl_step *step;
    wants shared, *to;   /* to: the current ones */
    bool *counted;       /* by parameter: included in the norm of all */
    int *owner;          /* by result of g: its parameter in the step, or -1: shared by all */
    const double **kept; /* by result of g: the shared values, as they arrived */
    distance *found;     /* by result of g */
};

static const double *find_old(void *user, dl_arena *arena, const char *name, int64_t first,
                              int64_t n) {
    return dl_verify_state_find(((const dl_model_updates *)user)->s, arena, name, first, n);
}

static void take_wanted(void *user, dl_result_role role, const char *name, const double *value,
                        int64_t n) {
    wants *to = ((dl_model_updates *)user)->to;
    dl_push(to->arena, &to->all, (wanted){role, name, n, dl_verify_copy(to->arena, value, n)});
}

static dl_step_of step_of(dl_model_updates *u, double *const *grads) {
    const dl_graph *g = u->derived;
    dl_step_param *params = DL_NEWS(u->arena, dl_step_param, g->results.n + 1);
    dl_step_of of = {u->step_options, 0, params, find_old, take_wanted, u, NULL};
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_GRAD || !dlr_exec_variable(u->s->exec, r->name).type) continue;
        const dl_type *t = &r->var->value.type;
        params[of.n++] = (dl_step_param){r->name,
                                         dl_type_count(t),
                                         t->rank,
                                         grads[i],
                                         t->rank ? t->axis[t->rank - 1].size : 1,
                                         t->rank > 1 ? t->axis[t->rank - 2].size : 1};
    }
    return of;
}

/* The parameter in the step whose result it is, or -1. */
static int find_owner(const dl_model_updates *u, const dl_result *r) {
    if (r->role != DL_RESULT_UPDATE) return -1;
    const char *name = r->var->role == DL_VAR_PARAM ? r->var->name : r->var->of;
    for (int i = 0; name && i < u->of.n; i++)
        if (strcmp(u->of.params[i].name, name) == 0) return i;
    return -1;
}

dl_model_updates *dl_verify_updates_of(dl_arena *arena, const dl_verify_graphs *graphs,
                                       double *const *grads, const dl_verify_state *s,
                                       const dl_step_options *step_options) {
    dl_model_updates *u = DL_NEW(arena, dl_model_updates);
    int n = graphs->made->results.n;
    *u = (dl_model_updates){.arena = arena,
                            .derived = graphs->derived,
                            .g = graphs->made,
                            .s = s,
                            .step_options = step_options};
    u->kept = DL_NEWS(arena, const double *, n + 1), u->found = DL_NEWS(arena, distance, n + 1);
    u->shared.arena = arena, u->to = &u->shared;
    u->of = step_of(u, grads);
    u->counted = DL_NEWS(arena, bool, u->of.n + 1), u->owner = DL_NEWS(arena, int, n + 1);
    for (int i = 0; i < n; i++) u->owner[i] = find_owner(u, &u->g->results.at[i]);
    if (u->of.n) u->step = dl_verify_step_begin(arena, &u->of);
    return u;
}

/* The definition's value of result r, or of n elements of it. */
static const double *find_want(const wants *w, const dl_result *r, int64_t n) {
    bool copy = r->role == DL_RESULT_UPDATE && r->var->role == DL_VAR_COPY;
    for (int i = 0; i < w->all.n; i++) {
        const wanted *x = &w->all.at[i];
        if (x->role != r->role || x->n != n) continue;
        if (strcmp(x->name, r->name) == 0 || (copy && strcmp(x->name, r->var->of) == 0))
            return x->value;
    }
    return NULL;
}

/* The number of elements that are computed together. */
static int64_t block_of(const dl_model_updates *u, int64_t count) {
    return dl_verify_step_whole(u->step_options) ? count : BLOCK;
}

static int64_t block_at(int64_t first, int64_t count, int64_t block) {
    return count - first < block ? count - first : block;
}

/* Computes the definition for some elements of parameter i. */
static wants make_part(dl_model_updates *u, dl_arena *arena, dl_step *step, int i, int64_t first,
                       int64_t n) {
    wants own = {.arena = arena};
    u->to = &own;
    dl_verify_step_param(step, i, first, n, step == u->step && !u->counted[i]);
    u->to = &u->shared;
    return own;
}

bool dl_verify_updates_want(const dl_model_updates *u, int result) {
    dl_result_role role = u->g->results.at[result].role;
    return u->of.n && (role == DL_RESULT_UPDATE || role == DL_RESULT_METRIC);
}

/* Adds the distances of a part of result i. */
static void measure(dl_model_updates *u, int i, const double *got, const double *want,
                    int64_t first, int64_t n) {
    const dl_result *r = &u->g->results.at[i];
    distance *d = &u->found[i];
    dl_arena *scratch = dl_arena_new(u->arena);
    const double *old = NULL;
    if (r->role == DL_RESULT_UPDATE)
        old =
            find_old(u, scratch, r->var->role == DL_VAR_COPY ? r->var->of : r->var->name, first, n);
    double size = dl_verify_norm(want, n);
    d->judged = true;
    d->off = hypot(d->off, dl_verify_distance(got, want, n)), d->size = hypot(d->size, size);
    d->step = hypot(d->step, old ? dl_verify_distance(want, old, n) : size);
    dl_arena_free(scratch);
}

/* Compares a parameter's definition, part by part, with a result's data; data NULL: computes it
 * for the norm of all parameters. */
static void measure_param(dl_model_updates *u, int param, int result, const double *data) {
    for (int64_t first = 0, count = u->of.params[param].count, block = block_of(u, count);
         first < count; first += block) {
        dl_arena *scratch = dl_arena_new(u->arena);
        int64_t n = block_at(first, count, block);
        wants own = make_part(u, scratch, u->step, param, first, n);
        const double *want = data ? find_want(&own, &u->g->results.at[result], n) : NULL;
        if (want) measure(u, result, data + first, want, first, n);
        dl_arena_free(scratch);
    }
    u->counted[param] = true;
}

void dl_verify_updates_take(dl_model_updates *u, int result, const double *data) {
    int64_t count = dl_type_count(&u->g->results.at[result].value->type);
    int param = u->owner[result];
    if (param < 0) { /* until the whole definition has been computed */
        u->kept[result] = dl_verify_copy(u->arena, data, count);
    } else if (count == u->of.params[param].count) {
        measure_param(u, param, result, data);
    }
}

static double allowed(const distance *d) {
    return 0x1p-20 * d->step + 1e-13 * d->size + 4 * d->moved;
}

static bool is_open(const dl_model_updates *u) {
    for (int i = 0; i < u->g->results.n; i++)
        if (u->found[i].judged && !(u->found[i].off <= allowed(&u->found[i]))) return true;
    return false;
}

typedef struct {
    dl_arena *arena;
    const dl_graph *g;
    double **grads;
} shaken;

static void take_grad(void *user, int i, const double *data) {
    const shaken *s = user;
    int64_t n = dl_type_count(&s->g->results.at[i].value->type);
    s->grads[i] = dl_verify_copy(s->arena, data, n);
}

/* Records how much results of a parameter (-1: shared ones) differ between two computations of the
 * definition; a and b are one part. */
static void note_moved(dl_model_updates *u, int param, const wants *a, const wants *b, int64_t n) {
    for (int i = 0; i < u->g->results.n; i++) {
        const dl_result *r = &u->g->results.at[i];
        if (!u->found[i].judged || u->owner[i] != param) continue;
        const double *x = find_want(a, r, n), *y = find_want(b, r, n);
        if (x && y) u->found[i].moved = hypot(u->found[i].moved, dl_verify_distance(y, x, n));
    }
}

static void move_param(dl_model_updates *u, dl_step *step, int i) {
    for (int64_t first = 0, count = u->of.params[i].count, block = block_of(u, count);
         first < count; first += block) {
        dl_arena *scratch = dl_arena_new(u->arena);
        int64_t n = block_at(first, count, block);
        wants one = make_part(u, scratch, u->step, i, first, n);
        wants other = make_part(u, scratch, step, i, first, n);
        note_moved(u, i, &one, &other, n);
        dl_arena_free(scratch);
    }
}

/* The effect of rounding the model's constants: the definition on gradients of perturbed runs. */
static bool shake(dl_model_updates *u, uint64_t seed, dl_error *err) {
    const dl_graph *g = u->derived;
    shaken s = {dl_arena_new(u->arena), g, NULL};
    bool *grads = DL_NEWS(s.arena, bool, g->results.n + 1);
    s.grads = DL_NEWS(s.arena, double *, g->results.n + 1);
    for (int i = 0; i < g->results.n; i++) grads[i] = g->results.at[i].role == DL_RESULT_GRAD;
    bool ok = dl_verify_interpret(g, grads, u->s, 0x1p-22, seed, take_grad, &s, err);
    if (ok) {
        dl_step_of of = step_of(u, s.grads);
        wants shared = {.arena = s.arena};
        for (int i = 0; i < u->g->results.n; i++) u->found[i].moved = 0;
        u->to = &shared;
        dl_step *step = dl_verify_step_begin(s.arena, &of);
        for (int i = 0; i < of.n; i++) move_param(u, step, i);
        u->to = &shared;
        dl_verify_step_end(step);
        u->to = &u->shared;
        note_moved(u, -1, &u->shared, &shared, 1);
    }
    dl_arena_free(s.arena);
    return ok;
}

bool dl_verify_updates_judge(dl_arena *arena, dl_model_updates *u, dl_verdict *v, dl_error *err) {
    if (!u->of.n) return true;
    for (int i = 0; i < u->of.n && u->step_options->norms; i++)
        if (!u->counted[i]) measure_param(u, i, -1, NULL);
    dl_verify_step_end(u->step);
    for (int i = 0; i < u->g->results.n; i++) {
        const dl_result *r = &u->g->results.at[i];
        int64_t n = dl_type_count(&r->value->type);
        const double *want = u->kept[i] ? find_want(&u->shared, r, n) : NULL;
        if (want) measure(u, i, u->kept[i], want, 0, n);
    }
    for (uint64_t k = 1; k <= 2 && is_open(u); k++)
        if (!shake(u, k, err)) return false;
    for (int i = 0; i < u->g->results.n; i++) {
        const dl_result *r = &u->g->results.at[i];
        const distance *d = &u->found[i];
        if (!d->judged) continue;
        v->judged.updates++;
        if (d->off <= allowed(d)) continue;
        char *fault = dl_format(
            arena,
            "%s '%s' is not what the optimiser makes of the gradients: %.2e off, where the "
            "step is %.2e and rounding explains %.2e",
            dl_result_roles[r->role], r->name, d->off, d->step, allowed(d));
        dl_push(arena, &v->faults, fault);
    }
    return true;
}
