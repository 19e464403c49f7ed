#include "programs/fill.h"

#include <stdlib.h>

#include "runtime/rng.h"
#include "runtime/state.h"

static void set_hyper(dlr_exec *exec, const char *name, double value) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (v.type) dlr_state_write(exec, v, DL_F64, &value);
}

bool dlc_fill(dlr_exec *exec, uint64_t seed, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    if (!dlr_state_init(exec, seed, err)) return false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (v->role != DL_VAR_INPUT && v->role != DL_VAR_TARGET) continue;
        int64_t n = dl_type_count(&v->type);
        float *noise = malloc((size_t)(n ? n : 1) * sizeof *noise);
        if (!noise) return dl_fail(err, DL_RESOURCE, "not enough memory for a batch");
        dlr_normals((dlr_rng_place){.seed = seed, .stream = DLR_STREAM_NOISE, .item = (uint32_t)i}, 0,
                    (size_t)n, 0, 1, noise);
        dlr_state_write(exec, dlr_exec_variable(exec, v->name), DL_F32, noise);
        free(noise);
    }
    set_hyper(exec, "lr.init", 1e-4), set_hyper(exec, "lr.end", 0);
    set_hyper(exec, "lr.warmup", 0), set_hyper(exec, "lr.total", 1000);
    return true;
}
