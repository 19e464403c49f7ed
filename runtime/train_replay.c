/* Training on given batches: how another program's run is followed step by step. */
#include <math.h>
#include <stdio.h>

#include "runtime/io/log.h"
#include "runtime/train_parts.h"

static bool replay(const dlr_train_options *o, dlr_replay *from, dl_error *err) {
    int train = dlr_exec_program(o->exec, "train");
    dlr_view loss = dlr_exec_result(o->exec, train, DL_RESULT_LOSS, NULL);
    if (!loss.type) return dl_fail(err, DL_INPUT, "the model states no loss to train on");
    for (int64_t i = 0; i < dlr_replay_batches(from); i++) {
        if (!dlr_replay_feed(from, i, err)) return false;
        dlr_exec_run(o->exec, train, NULL);
        double value = dlr_scalar(o->exec, loss);
        if (i == 0 && !dlr_run_save_gradients(o, train, err)) return false;
        if (!isfinite(value))
            return dl_fail(err, DL_NUMERIC, "loss is not finite at step %lld", (long long)i + 1);
        printf("{\"step\": %lld, \"loss\": %.9g}\n", (long long)i + 1, value);
        if (fflush(stdout) != 0) return dl_fail_errno(err, DL_IO, "cannot write to standard output");
    }
    return true;
}

bool dlr_train_replay(const dlr_train_options *o, const char *path, dl_error *err) {
    dlr_replay *from = dlr_replay_open(path, o->exec, err);
    if (!from) return false;
    dlr_schedule schedule = o->schedule;
    schedule.base_batch = schedule.global_batch;
    schedule.steps = dlr_replay_batches(from);
    dlr_log_info("replaying %lld batches of %s", (long long)schedule.steps, path);
    bool ok =
        dlr_run_start_weights(o, err) && dlr_run_set_rates(o->exec, &schedule, err) && replay(o, from, err);
    dlr_replay_close(from);
    return ok;
}
