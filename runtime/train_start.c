/* What a run begins with: weights, rates; and the gradients of its first step. */
#include "runtime/io/log.h"
#include "runtime/state.h"
#include "runtime/train_parts.h"

bool dlr_run_start_weights(const dlr_train_options *o, dl_error *err) {
    if (!dlr_state_init(o->exec, o->seed, err)) return false;
    if (!o->init_weights) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors model = dlr_tensors_of_model(arena, o->exec);
    bool ok = dlr_tensors_load_file(&model, o->init_weights, err);
    if (ok) dlr_log_info("initial weights from %s", o->init_weights);
    dl_arena_free(arena);
    return ok;
}

static bool set(dlr_exec *exec, const char *name, double value, dl_error *err) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (!v.type)
        return dl_fail(err, DL_INPUT, "the plan has no variable '%s': was it compiled without an optimiser?",
                       name);
    dlr_state_write(exec, v, DL_F64, &value);
    return true;
}

bool dlr_run_set_rates(dlr_exec *exec, const dlr_schedule *schedule, dl_error *err) {
    dlr_rates rates;
    return dlr_schedule_rates(schedule, &rates, err) && set(exec, "lr.init", rates.init, err) &&
           set(exec, "lr.end", rates.end, err) && set(exec, "lr.warmup", rates.warmup, err) &&
           set(exec, "lr.total", rates.total, err);
}

bool dlr_run_save_gradients(const dlr_train_options *o, int program, dl_error *err) {
    if (!o->save_grads) return true;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors gradients = dlr_tensors_of_gradients(arena, o->exec, program);
    dlr_st_content content = dlr_tensors_content(&gradients);
    bool ok = gradients.n > 0 || dl_fail(err, DL_INTERNAL, "the plan was compiled without keeping gradients");
    dlr_st_written written;
    ok = ok && dlr_st_write(o->save_grads, &content, &written, err);
    if (ok) dlr_log_info("gradients of step 1 written to %s", o->save_grads);
    if (ok && written.not_finite) /* which may be what they are wanted for */
        dlr_log_warning("gradients of step 1 are not all finite: '%s' is the first that is not",
                        written.not_finite);
    dl_arena_free(arena);
    return ok;
}
