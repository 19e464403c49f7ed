/* Consolidates the variants of a plan's contractions. The cost model chooses a kernel's tiles by
 * its sizes alone; where a variant that takes hardly longer shares another kernel's loop over
 * tiles, NVRTC compiles one function less. */
#include <math.h>

#include "compiler/cuda/cuda.h"
#include "compiler/cuda/gemm_problem.h"

/* The total cost of functions that are left out, as a share of the time of all the plan's
 * contractions, is at most this, and of one function at most `once`; the cost model's error is
 * larger. The tuner, which measures, is not limited. Variants that take `most` times as long as
 * the first are ignored. */
static const double part = 0.03, once = 0.01, most = 6;

/* A contraction of the plan, its near variants, and the number of each variant's function. */
typedef struct {
    dl_kernel *kernel;
    int n, candidate, function[DL_MOST_VARIANTS];
    const char *name[DL_MOST_VARIANTS];
    double time[DL_MOST_VARIANTS];
} choice;

typedef struct {
    dl_arena *arena;
    DL_ARRAY(choice) choices;
    DL_ARRAY(uint64_t) functions; /* by number */
    int *kernels;                 /* by number: contractions that have it */
    double all;                   /* time of all with their first variant */
} plan;

static int number_of(plan *p, uint64_t function) {
    for (int i = 0; i < p->functions.n; i++)
        if (p->functions.at[i] == function) return i;
    dl_push(p->arena, &p->functions, function);
    return p->functions.n - 1;
}

static void add(plan *p, dl_kernel *kernel, const dl_target *t) {
    dl_cuda_variant candidates[DL_MOST_VARIANTS];
    choice c = {.kernel = kernel, .n = dl_cuda_near(kernel, t, most, candidates)};
    if (!c.n) return;
    for (int i = 0; i < c.n; i++)
        c.time[i] = candidates[i].time, c.name[i] = candidates[i].name,
        c.function[i] = number_of(p, candidates[i].function);
    p->all += c.time[0];
    dl_push(p->arena, &p->choices, c);
}

/* The contraction's first variant with another function that some contraction has, or -1. */
static int other_candidate(const plan *p, const choice *c) {
    for (int w = 0; w < c->n; w++)
        if (c->function[w] != c->function[c->candidate] && p->kernels[c->function[w]]) return w;
    return -1;
}

/* The additional time of all contractions without the function. */
static double cost_of(const plan *p, int function) {
    double cost = 0;
    for (int i = 0; i < p->choices.n; i++) {
        const choice *c = &p->choices.at[i];
        if (c->function[c->candidate] != function) continue;
        int other = other_candidate(p, c);
        if (other < 0) return INFINITY;
        cost += c->time[other] - c->time[c->candidate];
    }
    return cost;
}

static void do_without(plan *p, int function) {
    for (int i = 0; i < p->choices.n; i++) {
        choice *c = &p->choices.at[i];
        if (c->function[c->candidate] != function) continue;
        c->candidate = other_candidate(p, c);
        p->kernels[c->function[c->candidate]]++;
    }
    p->kernels[function] = 0;
}

/* The function that costs least to leave out, or -1. */
static int cheapest(const plan *p, double *cost) {
    int which = -1;
    *cost = INFINITY;
    for (int i = 0; i < p->functions.n; i++) {
        double own = p->kernels[i] ? cost_of(p, i) : INFINITY;
        if (own < *cost) *cost = own, which = i;
    }
    return which;
}

void dl_cuda_consolidate(dl_arena *arena, int n, dl_kernel *const *kernels, const dl_target *t) {
    plan p = {.arena = arena};
    double cost, spent = 0;
    for (int i = 0; i < n; i++) add(&p, kernels[i], t);
    p.kernels = DL_NEWS(arena, int, p.functions.n + 1);
    for (int i = 0; i < p.choices.n; i++) p.kernels[p.choices.at[i].function[0]]++;
    for (int which;
         (which = cheapest(&p, &cost)) >= 0 && cost <= once * p.all && spent + cost <= part * p.all;
         spent += cost)
        do_without(&p, which);
    for (int i = 0; i < p.choices.n; i++) {
        const choice *c = &p.choices.at[i];
        if (c->candidate) c->kernel->schedule.variant = c->name[c->candidate];
    }
}
