/* The C side of check_torch_run.py: steps on all batches but the last, keeps the run as PyTorch's
 * file, then makes one more step and keeps the weights.
 *
 *   torch_run BATCHES RUN.tar WEIGHTS --model=M --optimizer=... (and other configuration keys) */
#include <stdio.h>

#include "compiler/session.h"
#include "runtime/setup/rates.h"
#include "runtime/train/feed.h"
#include "runtime/train/torch_run.h"
#include "runtime/train/train_parts.h"

static dl_arena *arena;

static dlr_exec *open_model(dl_config *c, dl_error *err) {
    dl_session *s = dl_session_open(arena, c, 1, NULL, err);
    dl_compile_options opt;
    if (!s || !dl_session_options(s, NULL, &opt, err)) return NULL;
    dl_plan *p = dl_session_compile(s, &opt, err);
    return p ? dlr_exec_open(p, (dlr_exec_options){.threads = 2}, err) : NULL;
}

static bool step(dlr_exec *e, dlr_replay *batches, int64_t from, int64_t end, dl_error *err) {
    for (int64_t i = from; i < end; i++) {
        if (!dlr_replay_feed(batches, i, err)) return false;
        dlr_exec_run(e, dlr_exec_program(e, "train"), NULL);
    }
    return true;
}

static bool run(char **files, dl_config *c, dl_error *err) {
    dlr_exec *e = open_model(c, err);
    dlr_replay *batches = e ? dlr_replay_open(files[0], e, 0, 1, err) : NULL;
    if (!batches) return false;
    int64_t n = dlr_replay_batches(batches);
    dlr_schedule schedule =
        dl_rates_schedule(arena, c, dl_config_int(c, DL_KEY_local_batch_size), 1);
    schedule.steps = n, schedule.epoch_steps = n;
    dlr_train_options o = {.exec = e, .seed = 5, .save_weights = files[2]};
    o.hypers = dl_rates_hypers(arena, c, &o.n_hypers);
    dlr_rates rates;
    if (!dlr_schedule_rates(&schedule, &rates, err) || !dlr_run_start_weights(&o, err))
        return false;
    dlr_run_set_hypers(&o, &rates);
    dlr_torch_value more[] = {{.kind = DLR_TORCH_TEXT, .text = "best_loss"},
                              {.kind = DLR_TORCH_REAL, .real = 0.5}};
    dlr_torch_run r = {.optimizer = dl_rates_optimizer(arena, c),
                       .rate = dlr_schedule_rate(&rates, n),
                       .initial_rate = dl_config_float(c, DL_KEY_start_lr),
                       .iters = n - 1,
                       .epoch = 2,
                       .more = more,
                       .n_more = 2,
                       .finite = true};
    dlr_torch_gathered gathered;
    bool ok = step(e, batches, 0, n - 1, err) &&
              dlr_torch_run_gather(arena, e, &r, &gathered, err) &&
              dlr_torch_run_write(files[1], &gathered, err) && step(e, batches, n - 1, n, err) &&
              dlr_run_save_weights(&o, err);
    dlr_replay_close(batches);
    dlr_exec_close(e);
    return ok;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    if (argc < 5) return DL_USAGE;
    arena = dl_arena_new(NULL);
    dl_config *c = dl_config_open(arena, argc - 3, argv + 3, NULL, &err);
    if (!c || !run(argv + 1, c, &err)) fprintf(stderr, "%s\n", err.message);
    dl_arena_free(arena);
    return err.code;
}
