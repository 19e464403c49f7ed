#include "runtime/analyze/synthetic_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/optimizers.h"
#include "ir/base/philox.h"
#include "runtime/base/rng.h"
#include "runtime/exec/state.h"

static void set_hyper(dlr_exec *exec, const char *name, double value) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (v.type) dlr_state_write(exec, v, DL_F64, &value);
}

/* The distribution: noise, class numbers below `count`, or moments as after some steps. */
typedef enum { NOISE, CLASSES, MEAN, CENTRE, SQUARE } kind;
typedef struct {
    kind kind;
    int64_t count;
    dlr_rng_place place;
    float *to;
    size_t n;
} draw;
enum { PIECE = 1 << 16 };

static void draw_piece(void *context, int64_t item, int thread) {
    const draw *d = context;
    size_t first = (size_t)item * PIECE, n = d->n - first < PIECE ? d->n - first : PIECE;
    float *m = d->to + first;
    (void)thread;
    if (d->kind == CLASSES) {
        dlr_uniforms(d->place, first, n, 0, 1, m);
        for (size_t i = 0; i < n; i++) m[i] = (float)floor((double)m[i] * (double)d->count);
        return;
    }
    dlr_normals(d->place, first, n, 0, 1, m);
    for (size_t i = 0; d->kind != NOISE && i < n; i++)
        m[i] = d->kind == SQUARE   ? 1e-6f * (1 + m[i] * m[i])
               : d->kind == CENTRE ? 1e-4f * m[i]
                                   : 1e-3f * m[i];
}

static void draw_all(dlr_exec *exec, draw d) {
    dlr_pool_run(dlr_exec_pool(exec), (int64_t)((d.n + PIECE - 1) / PIECE), draw_piece, &d);
}

/* Moments as after some steps: from zero, Adam's first step divides each gradient by itself, and
 * rounding is all that is left of the small ones. Drawn in place, in memory's order: a copy would
 * be as large as the largest weight. */
static void fill_moments(dlr_exec *exec, dlr_view v, const dl_plan_var *var, dlr_rng_place place) {
    const dl_kept *kept = dl_optimizer_kept(var->name, var->of);
    kind as = !kept || kept->kind == DL_KEPT_MEAN ? MEAN
              : kept->kind == DL_KEPT_CENTRE      ? CENTRE
                                                  : SQUARE;
    draw_all(exec, (draw){as, 0, place, dlr_exec_host(exec, v, DLR_WRITE),
                          (size_t)dl_type_stored(v.type)});
}

/* count: below which whole numbers stay; 0: floats. */
static bool fill_input(dlr_exec *exec, dlr_view v, int64_t count, dlr_rng_place place,
                       dl_error *err) {
    size_t n = (size_t)dl_type_count(v.type);
    float *noise = malloc((n ? n : 1) * sizeof *noise);
    if (!noise) return dl_fail(err, DL_RESOURCE, "not enough memory for a batch");
    draw_all(exec, (draw){count ? CLASSES : NOISE, count, place, noise, n});
    dlr_state_write(exec, v, DL_F32, noise);
    free(noise);
    return true;
}

static int64_t count_of(const dl_classes *classes, const char *name) {
    for (int i = 0; i < classes->n; i++)
        if (strcmp(classes->at[i].name, name) == 0) return classes->at[i].count;
    return 0;
}

bool dl_fill_synthetic(dlr_exec *exec, const dl_classes *classes, uint64_t seed, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    if (!dlr_state_init(exec, seed, err)) return false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        dlr_view view = dlr_exec_variable(exec, v->name);
        dlr_rng_place place = {.seed = seed, .stream = DLR_STREAM_NOISE, .item = (uint32_t)i};
        if (v->role == DL_VAR_STATE && v->of && v->type.dtype == DL_F32)
            fill_moments(exec, view, v, place);
        if (dl_plan_is_fed(v) && !fill_input(exec, view, count_of(classes, v->name), place, err))
            return false;
    }
    dlr_view drawn = dlr_exec_variable(exec, DL_RANDOM_SEED);
    if (drawn.type) dlr_state_write(exec, drawn, DL_I64, &seed);
    set_hyper(exec, "optimizer.lr.init", 1e-4), set_hyper(exec, "optimizer.lr.end", 0);
    set_hyper(exec, "optimizer.lr.warmup", 0), set_hyper(exec, "optimizer.lr.total", 1000);
    return true;
}
