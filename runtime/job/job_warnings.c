/* A run's warnings, kept until there is a log to hold it. */
#include "runtime/formats/log.h"
#include "runtime/job/job.h"
#include "runtime/setup/dataset_options.h"

void dl_job_add_warnings(dl_run_job *p) {
    static const dl_key rates[] = {DL_KEY_start_lr, DL_KEY_end_lr};
    const dl_config *c = p->config;
    const char *tracking = dl_tracking_warning(p->wandb);
    if (tracking) dl_push(p->arena, &p->warnings, tracking);
    const dl_yaml *valid = dl_config_value(c, DL_KEY_valid_batch_size);
    if (valid->kind == DL_YAML_INT && valid->integer != p->global_batch && !dl_job_replays(c))
        dl_push(
            p->arena, &p->warnings,
            dl_format(p->arena,
                      "valid_batch_size: validation runs on batches of %lld, the training's size",
                      (long long)p->global_batch));
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (dl_config_float(c, rates[i]) > 1)
            dl_push(
                p->arena, &p->warnings,
                dl_format(
                    p->arena,
                    "%s is %g: Adam moves a weight by about the learning rate in each step, and "
                    "rates are well below 1",
                    dl_key_name(rates[i]), dl_config_float(c, rates[i])));
    bool means = !dl_config_is_null(c, DL_KEY_time_means_path),
         test = !dl_config_is_null(c, DL_KEY_inf_data_path);
    if (means || test)
        dl_push(p->arena, &p->warnings,
                dl_format(p->arena,
                          "%s%s%s: training reads nothing of it, here as in the repository's code",
                          test ? "inf_data_path" : "", test && means ? ", " : "",
                          means ? "time_means_path" : ""));
    const char *npy[2][2], *missing = dl_samples_npy(p->arena, c, npy);
    if (missing && missing[0] && !dl_job_replays(c))
        dl_push(p->arena, &p->warnings,
                dl_format(p->arena,
                          "dali-lowmem: of its four .npy files %s is not there; the data are those "
                          "of train_path "
                          "and val_path",
                          missing));
}

void dl_job_tell_warnings(dl_run_job *p) {
    for (int i = 0; i < p->warnings.n; i++) {
        if (p->logs)
            dlr_log_warning("%s", p->warnings.at[i]);
        else if (dl_job_is_rank0(p))
            dl_console_warning(p->out, p->warnings.at[i]);
    }
    p->warnings.n = 0;
}
