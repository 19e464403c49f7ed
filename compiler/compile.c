#include "compiler/compile.h"

#include "compiler/code.h"
#include "compiler/jit/program.h"
#include "compiler/jit/thread.h"
#include "compiler/late.h"
#include "compiler/prepared.h"
#include "ir/base/clock.h"
#include "ir/base/counts.h"
#include "ir/base/cpus.h"
#include "ir/base/hash.h"
#include "ir/body.h"
#include "ir/kernel/schedule.h"
#include "passes/memory/memory.h"

static bool has_feed(const dl_module *m, const dl_target *t) {
    bool any = false;
    for (int i = 0; m->graphs.n && i < m->graphs.at[0]->vars.n; i++) {
        const dl_var *v = m->graphs.at[0]->vars.at[i];
        any |= (v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET) &&
               dl_dtype_is_float(v->value.type.dtype);
    }
    return any && t->backend->feed;
}

/* The input gather has a source of its own: it is the same for every model, so it is compiled
 * once. */
static dl_plan_object feed_of(dl_arena *arena, const dl_target *t) {
    dl_buf b = {0};
    t->backend->feed(&b, t);
    dl_plan_object o = {.source = dl_strndup(arena, b.at, b.n)};
    dl_buf_free(&b);
    return o;
}

/* ---- work in a second thread while the passes run ---- */

/* Loads the compiler and compiles the input gather ahead of the plan's own build, which then
 * finds both. Faults are not reported here: the build meets them again. */
typedef struct {
    const dl_target *target;
    pthread_t thread;
    bool runs;
} ahead;

static void *build_ahead(void *context) {
    const dl_target *t = ((ahead *)context)->target;
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan_object feed = feed_of(arena, t);
    dl_error ignored = {0};
    int compiled;
    t->backend->build(arena, 1, &feed, t, NULL, &compiled, &ignored);
    dl_arena_free(arena);
    return NULL;
}

/* An emulated target's compiler is a child process that the calling thread must watch, so it is
 * not started here. */
static void begin_ahead(ahead *a, const dl_module *m, const dl_compile_options *opt) {
    *a = (ahead){.target = opt->target};
    bool any =
        opt->link && !opt->target->emulated && has_feed(m, opt->target) && dl_cpus_allowed() > 1;
    a->runs = any && dl_start_compiler(&a->thread, build_ahead, a);
}

static void end_ahead(ahead *a) {
    if (a->runs) pthread_join(a->thread, NULL);
}

/* A schedule that names no variant means the first, whose name it gets. */
static void name_variant(dl_kernel *k, const dl_target *t) {
    const char *names[DL_MOST_VARIANTS];
    if (k->schedule.variant || !dl_schedule_has_variants(k->schedule.kind)) return;
    if (t->backend->variants && t->backend->variants(k, t, names) > 1)
        k->schedule.variant = names[0];
}

static bool emit_all(const dl_module *m, dl_plan *p, const dl_compile_options *opt, dl_error *err) {
    int n = 0, next = 0;
    dl_kernel **kernels = dl_module_kernel_list(m, p->arena, &n);
    bool *late = DL_NEWS(p->arena, bool, n + 1);
    /* an emulated target's compiler takes longer for another source than for its kernels */
    const bool splits = dl_module_graph(m, "train") && !opt->target->emulated;
    for (int g = 0; g < m->graphs.n; g++) {
        const bool waits = splits && strcmp(m->graphs.at[g]->name, "train") != 0;
        for (int left = dl_graph_kernels(m->graphs.at[g]); left > 0; left--) late[next++] = waits;
    }
    dl_mark_prepared(m);
    const dl_tuner *tuner = opt->target->backend->variants ? opt->tuner : NULL;
    if (tuner && !tuner->choose(tuner->user, n, kernels, err)) return false;
    if (!tuner && opt->target->backend->consolidate)
        opt->target->backend->consolidate(p->arena, n, kernels, opt->target);
    for (int i = 0; i < n; i++) {
        dl_kernel *k = kernels[i];
        if (k->repeats) k->schedule.variant = k->repeats->schedule.variant;
        name_variant(k, opt->target);
    }
    bool ok = dl_add_kernels(p, opt->target, n, kernels, late, opt->compile_threads, err);
    if (has_feed(m, opt->target)) dl_push(p->arena, &p->objects, feed_of(p->arena, opt->target));
    return ok;
}

static void add_programs(dl_plan *p, const dl_module *m) {
    int64_t *ends = DL_NEWS(p->arena, int64_t, m->graphs.n + 1);
    for (int g = 0, first = 0; g < m->graphs.n; first += dl_graph_kernels(m->graphs.at[g++])) {
        dl_add_program(p, m->graphs.at[g], first);
        ends[g] = m->graphs.at[g]->arena_bytes;
    }
    p->arena_bytes = dl_module_arena_bytes(m);
    dl_plan_prepare(p, ends);
}

static void forget_offsets(dl_module *m) {
    for (int i = 0; i < m->graphs.n; i++) {
        dl_graph *g = m->graphs.at[i];
        g->arena_bytes = 0;
        for (int k = 0; k < g->vars.n; k++) g->vars.at[k]->value.offset = -1;
        for (int n = 0; n < g->nodes.n; n++)
            for (int k = 0; k < g->nodes.at[n]->nout; k++) g->nodes.at[n]->out[k].offset = -1;
    }
}

static int count_repeated(const dl_module *m) {
    int n = 0;
    for (int i = 0; i < m->graphs.n; i++)
        for (int k = 0; k < m->graphs.at[i]->kernels.n; k++)
            n += m->graphs.at[i]->kernels.at[k]->repeats != NULL;
    return n;
}

static dl_plan *emit_plan(dl_arena *arena, const dl_module *m, const dl_compile_options *opt,
                          dl_error *err) {
    dl_plan *p = DL_NEW(arena, dl_plan);
    *p = (dl_plan){.arena = arena,
                   .model = dl_strdup(arena, opt->model),
                   .target = dl_strdup(arena, opt->target->name),
                   .batch = opt->batch};
    if (!emit_all(m, p, opt, err)) return NULL;
    add_programs(p, m);
    return p;
}

/* ---- a budget of memory ---- */

typedef struct {
    dl_arena *arena;
    dl_module *m;
    dl_pass_ctx *ctx;
    const dl_compile_options *opt;
} budget;

/* Lets the passes fit the module's arena into so many bytes, if kernels that run again can do that;
 * returns the bytes that it takes, or -1 with an error. */
static int64_t fit_arena(const budget *b, int64_t bytes) {
    b->ctx->memory = dl_at_least(1, bytes);
    forget_offsets(b->m);
    const dl_pass_options run = {.validate = b->opt->validate};
    return dl_run_passes(b->m, "fit_memory,plan_memory", b->ctx, run) ? dl_module_arena_bytes(b->m)
                                                                      : -1;
}

/* The size to which an arena of `whole` bytes was asked to fit when it took the least; 0 with an
 * error. The choice of kernels is greedy: a smaller size may lead to a larger arena. */
static int64_t find_least(const budget *b, int64_t whole) {
    enum { PARTS = 64 };
    int64_t best = 0, least = INT64_MAX;
    for (int i = PARTS - 1; i > 0; i--) {
        const int64_t asked = whole / PARTS * i, taken = fit_arena(b, asked);
        if (taken < 0) return 0;
        if (taken < least) least = taken, best = asked;
    }
    return best;
}

/* In place of plan `whole`, which takes too much, one that fits. What kernels take in addition to
 * the arena is known with their code, and packing leaves gaps: the arena gets less until both fit.
 */
static dl_plan *fit_plan(const budget *b, const dl_plan *whole, dl_error *err) {
    enum { TRIES = 6 };
    const int64_t most = b->opt->memory;
    int64_t bytes = whole->arena_bytes, peak = dl_plan_peak(whole, dl_cpus_allowed());
    for (int i = 0; i <= TRIES; i++) {
        bytes = i < TRIES ? bytes - (peak - most) : find_least(b, whole->arena_bytes);
        if ((i == TRIES && !bytes) || fit_arena(b, bytes) < 0) return NULL;
        dl_plan *p = emit_plan(b->arena, b->m, b->opt, err);
        if (!p) return NULL;
        peak = dl_plan_peak(p, dl_cpus_allowed());
        if (peak <= most) return p;
    }
    return dl_fail(
               err, DL_RESOURCE,
               "memory_budget: a step takes %.1f MiB, even with kernels that run again, and the "
               "budget is %.1f MiB: a smaller local_batch_size takes less",
               (double)peak / 0x1p20 + 0.05, (double)most / 0x1p20),
           NULL;
}

dl_plan *dl_compile(dl_arena *parent, dl_module *m, const dl_compile_options *opt,
                    dl_compile_times *times, dl_error *err) {
    double start = dl_clock_ms();
    dl_arena *scratch = dl_arena_new(parent), *arena = dl_arena_new(parent);
    dl_pass_ctx ctx = {.arena = scratch,
                       .weights = opt->target->weights,
                       .half_gemms = opt->target->half_gemms,
                       .expanded = opt->target->expanded,
                       .tf32 = opt->tf32 && opt->target->has_tf32,
                       .balance = opt->target->balance,
                       .loops = opt->target->loops,
                       .contractions = opt->target->contractions,
                       .keep_gradients = opt->keep_gradients,
                       .step_options = opt->step_options,
                       .objectives = opt->objectives,
                       .nobjectives = opt->nobjectives,
                       .params = opt->params,
                       .parallel = opt->parallel,
                       .err = err};
    ahead concurrent;
    begin_ahead(&concurrent, m, opt);
    dl_pass_options run = {
        .skip = opt->skip, .validate = opt->validate, .observe = opt->observe, .user = opt->user};
    bool ok = dl_run_passes(m, dl_pipeline, &ctx, run);
    times->passes_ms = dl_clock_ms() - start;

    start = dl_clock_ms();
    dl_plan *p = ok ? emit_plan(arena, m, opt, err) : NULL;
    if (p && opt->memory && dl_plan_peak(p, dl_cpus_allowed()) > opt->memory)
        p = fit_plan(&(budget){arena, m, &ctx, opt}, p, err);
    ok = p != NULL, times->repeated = count_repeated(m);
    times->emit_ms = dl_clock_ms() - start;
    start = dl_clock_ms();
    end_ahead(&concurrent);
    ok = ok && (!opt->link || dl_build_plan(p, opt, &times->compiled, err));
    times->cc_ms = dl_clock_ms() - start;
    for (int i = 0; ok && i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].calls.n; j++)
            p->key = dl_hash_str(dl_algorithm_text(arena, &p->kernels.at[i].calls.at[j].algorithm),
                                 p->key);
    for (int i = 0; ok && i < p->objects.n; i++)
        p->key = dl_hash(&p->objects.at[i].key, sizeof(uint64_t), p->key);
    dl_arena_free(scratch);
    if (ok) return p;
    dl_arena_free(arena);
    return NULL;
}
