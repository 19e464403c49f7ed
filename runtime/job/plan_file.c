#include "runtime/job/plan_file.h"

#include "compiler/origin.h"
#include "ir/base/input.h"

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Fails with the command that compiles the plan for this target. */
static bool fail_target(const dl_run_job *p, dl_code code, const char *why, const char *target,
                        dl_error *err) {
    const char *words = dl_format(p->arena, "--target=%s", target);
    return dl_fail(err, code, "%.200s is compiled for %s, and %s; compile one for it: %s",
                   p->plan_file, p->given->target, why,
                   dl_origin_command(p->arena, p->given, words, p->plan_file));
}

/* Whether this machine's CPU, where the plan is for one, is the plan's. */
static bool check_target(const dl_run_job *p, dl_error *err) {
    dl_error why = {0};
    if (dl_target_find(p->given->target, &why)) return true;
    const dl_target *best = dl_target_find(NULL, err);
    return best && fail_target(p, DL_RESOURCE,
                               why.code == DL_USAGE ? "this program has no such target"
                                                    : "this CPU cannot run that",
                               best->name, err);
}

bool dl_job_take_plan_file(dl_run_job *p, dl_error *err) {
    p->plan_file = dl_config_take_plan(p->config);
    if (!p->plan_file) return true;
    dl_input_remember(p->plan_file); /* no output of this run replaces it */
    p->given = dl_plan_read(p->arena, p->plan_file, err);
    if (!p->given) return false;
    if (!p->given->origin.text)
        return dl_fail(err, DL_INPUT,
                       "%.200s is a plan without its model, of the cache: `dlc compile -o` writes "
                       "plans that dlrun takes",
                       p->plan_file);
    if (!dl_config_take_model(p->config, err)) return false;
    if (dl_config_is_given(p->config, DL_KEY_model))
        return dl_fail(err, DL_USAGE,
                       "one model at a time: %.200s has its own, and %.200s is named", p->plan_file,
                       dl_config_str(p->config, DL_KEY_model));
    dl_config_set_text(p->config, p->plan_file, p->given->origin.configuration);
    return check_target(p, err);
}

/* "cuda:sm_90" without the letter: what is compiled for either runs on the same devices. */
static size_t family(const char *target) {
    size_t n = strlen(target);
    return n && target[n - 1] == 'a' ? n - 1 : n;
}

static bool is_like(const char *target, const char *own) {
    if (starts(target, "cuda:") && dl_target_is_emulated(target) && dl_target_is_emulated(own))
        return starts(own, "cuda:");
    size_t n = family(target);
    return strcmp(target, own) == 0 ||
           (starts(target, "cuda:") && n == family(own) && strncmp(target, own, n) == 0);
}

bool dl_job_choose_plan_device(dl_run_job *p, dl_error *err) {
    const char *word = dl_config_str(p->config, DL_KEY_device), *target = p->given->target;
    bool cuda = starts(target, "cuda:");
    if (strcmp(word, "auto") == 0)
        word = !cuda ? "cpu" : dl_target_is_emulated(target) ? "cuda:emulated" : "cuda";
    if (!dl_device_choose(p->arena, word, NULL, &p->device, err)) return false;
    const char *own = p->device.target; /* NULL: any CPU's */
    if (own ? !is_like(target, own) : cuda)
        return fail_target(p, DL_INPUT, dl_format(p->arena, "device is %s", word),
                           own ? own : "cpu", err);
    p->device.target = target;
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
