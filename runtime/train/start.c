#include "runtime/train/start.h"

#include <string.h>

#include "ir/base/philox.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"
#include "runtime/formats/log.h"
#include "runtime/train/scaler.h"

/* False: a buffer whose numbers come from a file of weights alone, and there is none, or it is one
 * of those that the file lacks. */
static bool has_numbers(const dlr_exec *exec, const dlr_differences *lacking, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        size_t n = strlen(v->name);
        bool there = v->init.kind != DL_INIT_GIVEN || lacking != NULL;
        for (int k = 0; v->init.kind == DL_INIT_GIVEN && lacking && k < lacking->n; k++)
            there = there && (strncmp(lacking->at[k], v->name, n) || lacking->at[k][n] != ':');
        if (!there)
            return dl_fail(err, DL_USAGE,
                           "buffer '%s' has its numbers from a file of weights alone: "
                           "--init_weights=FILE",
                           v->name);
    }
    return true;
}

/* Each tensor that one side alone has, or in another shape, is a line of the log. */
static bool load_shared(dl_arena *arena, dlr_exec *exec, const dlr_tensors *model, const char *path,
                        dl_error *err) {
    dlr_differences others = {0};
    int taken;
    if (!dlr_tensors_load_shared(arena, model, path, &others, &taken, err)) return false;
    dlr_log_info("initial weights from %s: %d of the model's %d tensors", path, taken, model->n);
    for (int i = 0; i < others.n; i++) dlr_log_info("  not taken: %s", others.at[i]);
    return has_numbers(exec, &others, err);
}

bool dlr_start_weights(dlr_exec *exec, const dlr_start_options *o, dl_error *err) {
    if (!dlr_state_init(exec, o->seed, err)) return false;
    dlr_scaler_start(exec, o->loss_scale);
    if (!o->init_weights) {
        dlr_tensors_begin_average(exec);
        return has_numbers(exec, NULL, err);
    }
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors model = dlr_tensors_of_model(arena, exec);
    bool ok = o->init_partial ? load_shared(arena, exec, &model, o->init_weights, err)
                              : dlr_tensors_load_file(&model, o->init_weights, err);
    if (ok && !o->init_partial) dlr_log_info("initial weights from %s", o->init_weights);
    dl_arena_free(arena);
    if (ok) dlr_tensors_begin_average(exec);
    return ok;
}

void dlr_set_hyper(dlr_exec *exec, const char *name, double value) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (v.type) dlr_state_write(exec, v, DL_F64, &value);
}

void dlr_start_hypers(dlr_exec *exec, const dlr_start_options *o, const dlr_rates *rates) {
    const dl_plan *plan = dlr_exec_plan(exec);
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        if (v->role != DL_VAR_HYPER) continue;
        if (strcmp(v->name, DL_RANDOM_SEED) == 0) {
            dlr_state_write(exec, dlr_exec_variable(exec, v->name), DL_I64, &o->seed);
            continue;
        }
        if (strcmp(v->name, DL_RANDOM_RANK) == 0) {
            dlr_set_hyper(exec, v->name, o->data_rank);
            continue;
        }
        double value = v->init.kind == DL_INIT_CONST ? v->init.a : 0;
        dlr_rates_value(rates, v->name, &value);
        for (int k = 0; k < o->n_hypers; k++)
            if (strcmp(v->name, o->hypers[k].name) == 0) value = o->hypers[k].value;
        dlr_set_hyper(exec, v->name, value);
    }
}
