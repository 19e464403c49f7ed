/* Where a network's programs are from: the compiler and its cache, the plan of dlc_options.plan, or
 * the kernels that a run has kept. */
#include "compiler/origin.h"
#include "library/model.h"
#include "runtime/setup/identity.h"
#include "runtime/setup/plan_choice.h"
#include "runtime/tune/tune.h"

/* ---- programs that are there already ---- */

bool library_take_plan(dlc_model *m, const dlc_options *o, dl_error *err) {
    if (dl_config_is_plan(m->path))
        return dl_fail(err, DL_USAGE,
                       "%.200s is a plan, which has no weights: open a run, or a file of weights, "
                       "and give the plan as dlc_options.plan",
                       m->path);
    if (!o->plan) return true;
    if (o->train)
        return dl_fail(err, DL_USAGE,
                       "dlc_options.plan: a plan's programs serve predictions here; open the model "
                       "for training without it, or train by `dlrun %.200s`",
                       o->plan);
    m->plan_path = dl_strdup(m->arena, o->plan);
    m->given = dl_plan_choice_read(m->arena, m->plan_path, err);
    return m->given != NULL;
}

/* The plan's programs for the largest batch that is asked for, at most. */
static bool use_plan(dlc_model *m, const dl_plan *p, const char *path, int64_t batch,
                     dl_error *err) {
    dl_compile_options opt;
    dl_session *s = m->session;
    dl_plan *found = dl_plan_prediction(p, s->batch);
    if (found) s->batch = m->batch = found->batch;
    m->relates = false;
    if (!dl_session_predict(s, 0, NULL, err) || !dl_session_add_evaluation(s, err) ||
        !dl_session_options(s, p->target, &opt, err) || !dl_origin_check(p, path, s, &opt, err))
        return false;
    m->plan = found;
    if (batch > m->batch)
        dl_console_warning(
            &m->console,
            dl_format(m->arena,
                      "dlc_options.batch is %lld, and of the programs of %.200s these take most "
                      "samples: %lld",
                      (long long)batch, path, (long long)m->batch));
    return true;
}

/* Where nothing compiles: the programs that the run has kept. The error of the compilation stays
 * where there are none. */
static bool use_kept(dlc_model *m, const dlc_options *o, dl_error *err) {
    const char *run = dl_saved_model_run(&m->net), *path;
    dl_error why = {0};
    if (err->code != DL_RESOURCE || o->train || !run) return false;
    const dl_target *target = dl_target_find(m->arena, m->device.target, &why);
    dl_plan *p = target ? dl_plan_choice_kept(m->arena, run, target->name, &path, &why) : NULL;
    if (!p && !why.code) return false;
    *err = why;
    return p && use_plan(m, p, path, o->batch, err);
}

/* ---- compiled here ---- */

static bool choose_device(dlc_model *m, dl_error *err) {
    const char *word = dl_config_str(m->config, DL_KEY_device);
    if (!(m->given ? dl_plan_choice_device(m->arena, m->given, m->plan_path, word, &m->device, err)
                   : dl_device_choose(m->arena, word, NULL, &m->device, err)))
        return false;
    if (m->device.warning) dl_console_warning(&m->console, m->device.warning);
    return !(m->comm && m->device.device && dl_target_is_gpu(m->device.device)) ||
           dl_fail(err, DL_USAGE,
                   "dlc_options.mpi_comm: ranks of the library train on CPUs; "
                   "dlrun trains on several GPUs");
}

/* Samples that the model relates are predicted one by one, as `dlrun predict` has it, unless the
 * model fixes its batch. */
static void choose_batch(dlc_model *m, const dlc_options *o) {
    dl_session one = *m->session;
    dl_error none = {0};
    m->batch = one.batch;
    m->relates = m->batch > 1 && !dl_session_treats_alone(m->session, m->batch);
    one.batch = 1;
    if (!m->relates || o->train || !dl_session_predict(&one, 0, NULL, &none)) return;
    m->session->batch = m->batch = 1, m->relates = false;
    if (o->batch > 1)
        dl_console_warning(&m->console,
                           dl_format(m->arena,
                                     "dlc_options.batch is %lld, and the model relates the samples "
                                     "of a batch: each is predicted by itself",
                                     (long long)o->batch));
}

static bool compile(dlc_model *m, const dlc_options *o, dl_error *err) {
    bool cached, train = o->train;
    dl_compile_options opt;
    dl_tuning tuning;
    dl_session *s = m->session;
    choose_batch(m, o);
    if (train && !dl_session_check_no_average(s, "the library", err)) return false;
    if (train) m->identity = dl_identify(m->arena, s);
    m->in_step = dl_config_int(m->config, DL_KEY_accumulate);
    if (!library_find_arrays(m, err)) return false;
    if (!(train ? dl_session_add_prediction(s, err) : dl_session_predict(s, 0, NULL, err)))
        return false;
    if (!dl_session_options(s, m->device.target, &opt, err)) return false;
    opt.out = &m->console;
    if (!dl_tune(m->arena, m->config, m->device.device, &opt, &tuning, err)) return false;
    m->plan = dl_session_plan(s, &opt, &cached, err);
    if (m->plan) dl_arena_move(m->plan->arena, m->arena);
    return m->plan != NULL;
}

bool library_compile(dlc_model *m, const void *options, dl_error *err) {
    const dlc_options *o = options;
    if (!choose_device(m, err)) return false;
    if (!(m->given
              ? library_find_arrays(m, err) && use_plan(m, m->given, m->plan_path, o->batch, err)
              : compile(m, o, err) || use_kept(m, o, err)))
        return false;
    dl_saved_model_close_session(&m->net);
    m->session = NULL;
    return true;
}
