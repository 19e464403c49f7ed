#include "compiler/trial.h"

#include "compiler/code.h"

/* Places the kernel's parameters next to each other in memory, and returns their offsets from 0. */
static int64_t *place(dl_plan *p, const dl_kernel *k) {
    int64_t *at = DL_NEWS(p->arena, int64_t, k->params.n + 1), end = 0;
    for (int i = 0; i < k->params.n; i++) {
        at[i] = end;
        end += dl_plan_round(dl_type_bytes(&k->params.at[i].type));
    }
    if (end > p->arena_bytes) p->arena_bytes = end;
    return at;
}

static void find_variants(dl_arena *arena, const dl_target *t, dl_trial *trial) {
    int n = trial->nvariants = t->backend->variants(trial->kernel, t, trial->names);
    for (int v = 0; v < n; v++) trial->variants[v] = n > 1 ? trial->names[v] : NULL;
    for (int i = 0; i < trial->noffers; i++) {
        const dl_algorithm *offer = &trial->offers[i];
        trial->names[trial->nvariants] = dl_algorithm_name(offer);
        trial->variants[trial->nvariants++] = dl_intern(dl_algorithm_text(arena, offer));
    }
}

static void add_program(dl_plan *p, const dl_trial *t, int kernel) {
    dl_plan_program program = {.name = p->kernels.at[kernel].name};
    dl_plan_launch launch = {.kernel = kernel, .nargs = t->kernel->params.n, .args = t->args};
    dl_push(p->arena, &program.launches, launch);
    dl_push(p->arena, &p->programs, program);
}

dl_plan *dl_trial_plan(dl_arena *parent, const dl_target *t, int n, dl_trial *trials,
                       const dl_console *out, dl_error *err) {
    dl_arena *arena = dl_arena_new(parent);
    dl_plan *p = DL_NEW(arena, dl_plan);
    *p = (dl_plan){.arena = arena, .model = "trial", .target = t->name, .batch = 1};
    dl_kernel **kernels = DL_NEWS(arena, dl_kernel *, n * DL_MOST_TRIAL_VARIANTS + 1);
    int all = 0, compiled;
    for (int i = 0; i < n; i++) {
        find_variants(arena, t, &trials[i]);
        trials[i].args = place(p, trials[i].kernel);
        trials[i].first = all;
        for (int v = 0; v < trials[i].nvariants; v++) {
            dl_kernel *k = DL_NEW(arena, dl_kernel);
            *k = *trials[i].kernel;
            k->name = dl_internf("%s_v%d", k->name, v);
            k->schedule.variant = trials[i].variants[v];
            kernels[all++] = k;
        }
    }
    bool ok = dl_add_kernels(p, t, all, kernels, NULL, 0, err);
    for (int i = 0; ok && i < n; i++)
        for (int v = 0; v < trials[i].nvariants; v++)
            add_program(p, &trials[i], trials[i].first + v);
    ok = ok && t->backend->build(arena, p->objects.n, p->objects.at, t, out, &compiled, err);
    if (ok) return p;
    dl_arena_free(arena);
    return NULL;
}
