#include "runtime/job/plan_file.h"

#include "compiler/origin.h"
#include "runtime/setup/plan_choice.h"

bool dl_job_take_plan_file(dl_run_job *p, dl_error *err) {
    p->plan_file = dl_config_take_plan(p->config);
    if (!p->plan_file) return true;
    p->given = dl_plan_choice_read(p->arena, p->plan_file, err);
    if (!p->given) return false;
    if (!dl_config_take_model(p->config, err)) return false;
    if (dl_config_is_given(p->config, DL_KEY_model))
        return dl_fail(err, DL_USAGE,
                       "one model at a time: %.200s has its own, and %.200s is named", p->plan_file,
                       dl_config_str(p->config, DL_KEY_model));
    dl_config_set_text(p->config, p->plan_file, p->given->origin.configuration);
    return true;
}

bool dl_job_check_plan_file(dl_run_job *p, dl_error *err) {
    dl_compile_options opt;
    if (!dl_session_options(p->session, p->given->target, &opt, err)) return false;
    opt.keep_gradients = !dl_config_is_null(p->config, DL_KEY_save_grads);
    if (dl_config_bool(p->config, DL_KEY_tune))
        dl_push(p->arena, &p->warnings,
                dl_format(p->arena, "tune: the kernels of %.200s are as they were compiled",
                          p->plan_file));
    return dl_origin_check(p->given, p->plan_file, p->session, &opt, err);
}
