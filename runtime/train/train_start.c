/* The start of a run: weights, rates, and the gradients of its first step. */
#include <string.h>

#include "ir/base/philox.h"
#include "runtime/exec/state.h"
#include "runtime/formats/log.h"
#include "runtime/train/train_parts.h"

bool dlr_run_gathers(const dlr_run *r) {
    dl_error why = {0};
    if (!r->o->device_samples || dlr_exec_arena(r->exec))
        return false; /* a CPU's inputs are the host's */
    bool ok = dlr_feed_gathers(&r->feed, r->o->train, &why) &&
              (!r->o->valid || dlr_feed_gathers(&r->feed, r->o->valid, &why));
    if (ok)
        dlr_log_info("the device makes samples of the files' numbers; the host %s",
                     dlr_dataset_host(r->o->train));
    else
        dlr_log_warning("the host makes the samples, not the device: %s", why.message);
    return ok;
}

bool dlr_run_holds(dlr_run *r) {
    const dlr_dataset *const data[2] = {r->o->train, r->o->valid};
    dl_error why = {0};
    bool ok = r->o->device_holds && dlr_feed_hold(&r->feed, data, &why);
    if (r->o->device_holds && !ok)
        dlr_log_info("the data set is read batch by batch: %s", why.message);
    return ok;
}

bool dlr_run_start_weights(const dlr_train_options *o, dl_error *err) {
    if (!dlr_state_init(o->exec, o->seed, err)) return false;
    dlr_scaler_start(o->exec, o->loss_scale);
    if (!o->init_weights) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors model = dlr_tensors_of_model(arena, o->exec);
    bool ok = dlr_tensors_load_file(&model, o->init_weights, err);
    if (ok) dlr_log_info("initial weights from %s", o->init_weights);
    dl_arena_free(arena);
    return ok;
}

void dlr_run_set_hyper(dlr_exec *exec, const char *name, double value) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (v.type) dlr_state_write(exec, v, DL_F64, &value);
}

void dlr_run_set_hypers(const dlr_train_options *o, const dlr_rates *rates) {
    const dl_plan *plan = dlr_exec_plan(o->exec);
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        if (v->role != DL_VAR_HYPER) continue;
        if (strcmp(v->name, DL_RANDOM_SEED) == 0) {
            dlr_state_write(o->exec, dlr_exec_variable(o->exec, v->name), DL_I64, &o->seed);
            continue;
        }
        if (strcmp(v->name, DL_RANDOM_RANK) == 0) {
            dlr_run_set_hyper(o->exec, v->name, o->ranks.data_rank);
            continue;
        }
        double value = v->init.kind == DL_INIT_CONST ? v->init.a : 0;
        dlr_rates_value(rates, v->name, &value);
        for (int k = 0; k < o->n_hypers; k++)
            if (strcmp(v->name, o->hypers[k].name) == 0) value = o->hypers[k].value;
        dlr_run_set_hyper(o->exec, v->name, value);
    }
}

/* Writes tensors of all ranks to a file, by the rank that writes; values that are not finite are
 * reported, and written all the same. */
static bool save(const dlr_train_options *o, dl_arena *arena, dlr_tensors *tensors,
                 const char *what, const char *path, dl_error *err) {
    if (!dlr_run_leads(o)) return dlr_tensors_help_gather(tensors, err);
    if (!dlr_tensors_gather(arena, tensors, err)) return false;
    dlr_st_content content = dlr_tensors_content(tensors);
    dlr_st_written written;
    if (!dlr_st_write(path, &content, &written, err)) return false;
    dlr_log_info("%s written to %s", what, path);
    if (written.not_finite) /* the user may want the file because of them */
        dlr_log_warning("%s are not all finite: '%s' is the first that is not", what,
                        written.not_finite);
    return true;
}

bool dlr_run_save_gradients(const dlr_train_options *o, int program, dl_error *err) {
    if (!o->save_grads) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors gradients = dlr_tensors_of_gradients(arena, o->exec, program);
    bool ok = gradients.n > 0 ||
              dl_fail(err, DL_INTERNAL, "the plan was compiled without keeping gradients");
    ok = ok && save(o, arena, &gradients, "gradients of step 1", o->save_grads, err);
    dl_arena_free(arena);
    return ok;
}

bool dlr_run_save_weights(const dlr_train_options *o, dl_error *err) {
    if (!o->save_weights) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors model = dlr_tensors_of_model(arena, o->exec);
    bool ok = save(o, arena, &model, "weights", o->save_weights, err);
    dl_arena_free(arena);
    return ok;
}
