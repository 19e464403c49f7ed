#include "programs/fill.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/philox.h"
#include "runtime/rng.h"
#include "runtime/state.h"

static void set_hyper(dlr_exec *exec, const char *name, double value) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (v.type) dlr_state_write(exec, v, DL_F64, &value);
}

/* Moments as after some steps: from zero, Adam's first step divides each gradient by itself, and rounding is
 * all that is left of the small ones. Drawn in place, in memory's order: a copy would be as large as the
 * largest weight. */
static void fill_moments(dlr_exec *exec, dlr_view v, const char *name, dlr_rng_place place) {
    bool square = strncmp(name, "exp_avg_sq.", 11) == 0;
    size_t n = (size_t)dl_type_stored(v.type);
    float *m = dlr_exec_host(exec, v, DLR_WRITE);
    dlr_normals(place, 0, n, 0, 1, m);
    for (size_t i = 0; i < n; i++) m[i] = square ? 1e-6f * (1 + m[i] * m[i]) : 1e-3f * m[i];
}

static bool fill_input(dlr_exec *exec, dlr_view v, dlr_rng_place place, dl_error *err) {
    size_t n = (size_t)dl_type_count(v.type);
    float *noise = malloc((n ? n : 1) * sizeof *noise);
    if (!noise) return dl_fail(err, DL_RESOURCE, "not enough memory for a batch");
    dlr_normals(place, 0, n, 0, 1, noise);
    dlr_state_write(exec, v, DL_F32, noise);
    free(noise);
    return true;
}

bool dlc_fill(dlr_exec *exec, uint64_t seed, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    if (!dlr_state_init(exec, seed, err)) return false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        dlr_view view = dlr_exec_variable(exec, v->name);
        dlr_rng_place place = {.seed = seed, .stream = DLR_STREAM_NOISE, .item = (uint32_t)i};
        if (v->role == DL_VAR_STATE && v->of && v->type.dtype == DL_F32)
            fill_moments(exec, view, v->name, place);
        bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
        if (fed && !fill_input(exec, view, place, err)) return false;
    }
    dlr_view drawn = dlr_exec_variable(exec, DL_RANDOM_SEED);
    if (drawn.type) dlr_state_write(exec, drawn, DL_I64, &seed);
    set_hyper(exec, "lr.init", 1e-4), set_hyper(exec, "lr.end", 0);
    set_hyper(exec, "lr.warmup", 0), set_hyper(exec, "lr.total", 1000);
    return true;
}
