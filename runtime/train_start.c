/* What a run begins with: weights, rates; and the gradients of its first step. */
#include <string.h>

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

bool dlr_run_set_hypers(const dlr_train_options *o, const dlr_schedule *schedule, dl_error *err) {
    dlr_rates rates;
    if (!dlr_schedule_rates(schedule, &rates, err)) return false;
    const dlr_hyper of_schedule[] = {{"lr.init", rates.init},
                                     {"lr.end", rates.end},
                                     {"lr.warmup", rates.warmup},
                                     {"lr.total", rates.total}};
    const dl_plan *plan = dlr_exec_plan(o->exec);
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        if (v->role != DL_VAR_HYPER) continue;
        double value = v->init.kind == DL_INIT_CONST ? v->init.a : 0;
        for (size_t k = 0; k < sizeof of_schedule / sizeof *of_schedule; k++)
            if (strcmp(v->name, of_schedule[k].name) == 0) value = of_schedule[k].value;
        for (int k = 0; k < o->n_hypers; k++)
            if (strcmp(v->name, o->hypers[k].name) == 0) value = o->hypers[k].value;
        dlr_state_write(o->exec, dlr_exec_variable(o->exec, v->name), DL_F64, &value);
    }
    return true;
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
