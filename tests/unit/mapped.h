/* Texts whose contractions are made by a way that tensor maps feed, as plans of their own: through
 * the plan's file, over the emulated driver, in captured graphs, compared with the interpreter.
 * What test_cuda_maps.c and test_cuda_images.c share. */
#ifndef DL_TEST_MAPPED_H
#define DL_TEST_MAPPED_H
#include <math.h>
#include <stdlib.h>

#include "compiler/cuda/cuda.h"
#include "compiler/session.h"
#include "ir/interp/interp.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/compiled.h"
#include "tests/unit/random_numbers.h"

enum { MAPPED_INPUTS = 5 };
static const char *mapped_way = "TMA"; /* a part of its name */

/* The emulated device, or NULL, as err says, where there is no C++ compiler. */
static inline const dl_target *mapped_target(dl_error *err) {
    uint64_t key;
    dl_arena *arena = dl_arena_new(NULL);
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a:emulated", err);
    bool here = t && t->backend->toolchain(arena, t, &key, err);
    dl_arena_free(arena);
    return here ? t : NULL;
}

/* By that way, whatever the cost model says. */
static inline bool choose_maps(void *user, int n, dl_kernel *const *kernels, dl_error *err) {
    (void)err;
    for (int i = 0; i < n; i++) {
        const char *names[DL_MOST_VARIANTS];
        int all = dl_cuda_variants(kernels[i], user, names);
        for (int v = all - 1; v >= 0; v--)
            if (strstr(names[v], mapped_way)) kernels[i]->schedule.variant = names[v];
    }
    return true;
}

static inline dl_plan *mapped_plan(dl_arena *arena, const char *text, const dl_target *t,
                                   bool link) {
    dl_error err = {0};
    dl_compile_times times;
    dl_tuner tuner = {.choose = choose_maps, .user = (void *)(uintptr_t)t};
    dl_compile_options opt = {
        .target = t, .tuner = &tuner, .tf32 = true, .model = "text", .batch = 1, .link = link};
    opt.step_options.optimizer = DL_OPT_NONE;
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dl_plan *plan = m ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(plan, "%s%s", err.message, text);
    return plan;
}

static inline dl_plan_entry *entry_with_maps(const dl_plan *p) {
    for (int i = 0; p && i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].entries.n; j++)
            if (p->kernels.at[i].entries.at[j].maps.n) return &p->kernels.at[i].entries.at[j];
    return NULL;
}

/* ---- numbers ---- */

/* Inputs of few digits, so that sums are exact in any order, and what the interpreter makes of
 * them; `odd`: of that input each so many'th is infinite. */
typedef struct {
    int ninputs; /* the text's, in their order */
    const char *names[MAPPED_INPUTS];
    float *in[MAPPED_INPUTS];
    double *want;
    int64_t n; /* numbers of the output */
} mapped_numbers;

static inline mapped_numbers mapped_interpret(dl_arena *arena, const char *text, int odd,
                                              int each) {
    mapped_numbers all = {0};
    dl_error err = {0};
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    CHECK(m, "%s", err.message);
    const dl_graph *g = m->graphs.at[0];
    dl_interp *run = dl_interp_new(g, true);
    rng random = {11};
    all.ninputs = g->vars.n;
    CHECK(all.ninputs <= MAPPED_INPUTS, "%d inputs", all.ninputs);
    for (int i = 0; i < all.ninputs; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        all.names[i] = g->vars.at[i]->name;
        double *to = dl_interp_data(run, v);
        int64_t n = dl_type_count(&v->type);
        all.in[i] = malloc((size_t)n * sizeof *all.in[i]);
        for (int64_t k = 0; k < n; k++) {
            all.in[i][k] = (float)rint(uniform(&random, -60, 60)) / 32;
            if (i == odd && k % each == 0) all.in[i][k] = INFINITY;
            to[k] = (double)all.in[i][k];
        }
    }
    const dl_value *y = NULL;
    for (int i = 0; i < g->nodes.n; i++) {
        CHECK(dl_interp_node(run, g->nodes.at[i], &err), "%s", err.message);
        y = &g->nodes.at[i]->out[0];
    }
    all.n = dl_type_count(&y->type);
    all.want = malloc((size_t)all.n * sizeof *all.want);
    memcpy(all.want, dl_interp_data(run, y), (size_t)all.n * sizeof *all.want);
    dl_interp_free(run);
    return all;
}

static inline void mapped_free(mapped_numbers *all) {
    for (int i = 0; i < all->ninputs; i++) free(all->in[i]);
    free(all->want);
}

/* How many numbers of the plan's output "y" are wrong, run twice over the emulator: captured, or
 * launch by launch; -1: it fails, as err says. */
static inline int64_t mapped_wrong(const dl_plan *p, const mapped_numbers *all, dl_error *err) {
    dlr_exec *exec = dlr_exec_open(p, (dlr_exec_options){.threads = 1}, err);
    if (!exec) return -1;
    for (int i = 0; i < all->ninputs; i++)
        dlr_state_write(exec, dlr_exec_variable(exec, all->names[i]), DL_F32, all->in[i]);
    for (int i = 0; i < 2; i++) dlr_exec_run(exec, 0, NULL);
    float *y = read_output(exec, 0, "y", DL_F32);
    bool ok = dlr_exec_check(exec, err);
    int64_t wrong = ok ? 0 : -1;
    for (int64_t i = 0; ok && i < all->n; i++)
        wrong += !((double)y[i] == all->want[i] || (isnan(y[i]) && isnan(all->want[i])));
    free(y);
    dlr_exec_close(exec);
    if (!ok)
        emulator()->set(
            (cuda_emulator_options){0}); /* as in another process: a fault lasts for one */
    return wrong;
}

/* By at most so many maps, or none is wrong. */
static inline void mapped_check(const char *dir, const char *text, const dl_target *t,
                                int most_maps) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *file = dl_format(arena, "%s/maps.dlp", dir);
    dl_plan *plan = mapped_plan(arena, text, t, true);
    const dl_plan_entry *e = entry_with_maps(plan);
    CHECK(e && e->maps.n <= most_maps, "no tensor maps: %s", text);
    bool ok = plan && dl_plan_write(plan, file, &err) && (plan = dl_plan_read(arena, file, &err));
    CHECK(ok, "%s", err.message);
    mapped_numbers all = mapped_interpret(arena, text, -1, 1);
    for (int guarded = 0; ok && guarded < 2; guarded++) {
        if (guarded) setenv("DLR_DEBUG", "guard", 1);
        int64_t wrong = mapped_wrong(plan, &all, &err);
        unsetenv("DLR_DEBUG");
        CHECK(wrong == 0, "%s: %lld of %lld are wrong %s", text, (long long)wrong, (long long)all.n,
              err.message);
    }
    mapped_free(&all);
    dl_arena_free(arena);
}

static inline int pick(rng *r, int from, int to) {
    return from + (int)(uniform(r, 0, 0.999999) * (to - from + 1));
}
#endif
