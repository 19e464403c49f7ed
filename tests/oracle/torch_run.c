/* The C side of check_torch_run.py: steps on all batches but the last, keeps the run as PyTorch's
 * file, then makes one more step and keeps the weights.
 *
 *   torch_run BATCHES RUN.tar WEIGHTS --model=M --optimizer=... (and other configuration keys) */
#include <stdio.h>

#include "compiler/session.h"
#include "runtime/setup/rates.h"
#include "runtime/train/batches.h"
#include "runtime/train/replay.h"
#include "runtime/train/save_tensors.h"
#include "runtime/train/torch_run.h"

static dl_arena *arena;

static dlr_exec *open_model(dl_config *c, dl_error *err) {
    dl_session *s = dl_session_open(arena, c, 1, NULL, err);
    dl_compile_options opt;
    if (!s || !dl_session_options(s, NULL, &opt, err)) return NULL;
    dl_plan *p = dl_session_compile(s, &opt, err);
    return p ? dlr_exec_open(p, (dlr_exec_options){.threads = 2}, err) : NULL;
}

static bool step(dlr_exec *e, dlr_batches *batches, int64_t n, dl_error *err) {
    dlr_batch batch;
    for (int64_t i = 0; i < n; i++) {
        if (!dlr_batches_next(batches, &batch, err)) return false;
        dlr_exec_run(e, dlr_exec_program(e, "train"), NULL);
    }
    return true;
}

static bool run(char **files, dl_config *c, dl_error *err) {
    const dlr_run_ranks alone = {0};
    dlr_exec *e = open_model(c, err);
    dlr_batches_options data = {.train = e ? dlr_replay_open(files[0], e, &alone, err) : NULL};
    dlr_batches batches;
    if (!data.train || !dlr_batches_open(&batches, &data, e, &alone, err) ||
        !dlr_batches_start(&batches, e, &alone, false, err))
        return false;
    int64_t n = batches.epoch_batches;
    dlr_schedule schedule =
        dl_rates_schedule(arena, c, dl_config_int(c, DL_KEY_local_batch_size), 1);
    schedule.steps = n, schedule.epoch_steps = n;
    dlr_start_options o = {.seed = 5};
    o.hypers = dl_rates_hypers(arena, c, dlr_exec_plan(e), &o.n_hypers);
    dlr_rates rates;
    if (!dlr_schedule_rates(&schedule, &rates, err) || !dlr_start_weights(e, &o, err)) return false;
    dlr_start_hypers(e, &o, &rates);
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
    bool ok = step(e, &batches, n - 1, err) && dlr_torch_run_gather(arena, e, &r, &gathered, err) &&
              dlr_torch_run_write(files[1], &gathered, err) && step(e, &batches, 1, err) &&
              dlr_save_weights(e, &alone, files[2], err);
    dlr_batches_close(&batches);
    dlr_dataset_close((dlr_dataset *)data.train);
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
