/* `dlc bench`: a training step, or a prediction, on this machine, next to the machine's own
 * ceilings measured in the same run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "ir/base/clock.h"
#include "ir/base/tags.h"
#include "runtime/analyze/analyze.h"
#include "runtime/analyze/bench_report.h"
#include "runtime/analyze/synthetic_inputs.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/setup/device_choice.h"
#include "runtime/tune/peak_rates.h"
#include "runtime/tune/tune.h"

static const dl_option options[] = {
    {"json", 0, NULL, "print the figures as JSON"},
    {"target", 0, "TARGET", dl_target_names},
    {"predict", 0, NULL, "time predictions of a batch in place of steps"},
    {"steps", 0, "N", "steps to time (default: as many as take some seconds, 5 at least)"},
    {"kernels", 0, NULL,
     "a line for every kernel (with --json: kernel_times): time, share of the ceiling, source "
     "lines"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc bench [MODEL.dl] [OPTION...] [--threads=N] [--key=value...]\n\n"
    "Times training steps or predictions on noise, with the machine's peak measured before and "
    "after, on\n"
    "the CPU or on --device. Without --config and batch size, the batch is 1.\n\n";

enum { MAX_STEPS = 1000, LEAST_STEPS = 5, LEAST_MS = 4000, KERNEL_ROUNDS = 5 };

/* CPU time of all threads of this process so far. */
static double cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return 1e3 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static bool goes_on(int steps, int want, double start) {
    return steps < MAX_STEPS &&
           (want ? steps < want : steps < LEAST_STEPS || dl_clock_ms() - start < LEAST_MS);
}

/* A step's loss and gradients are means over so many batches. */
static void set_batches(dlr_exec *exec, const dl_bench *b) {
    dlr_view v = dlr_exec_variable(exec, DL_ACCUMULATE_BATCHES);
    const double n = (double)b->in_step;
    if (v.type) dlr_state_write(exec, v, DL_F64, &n);
}

/* The batches of a step before its last one. */
static void run_before(dlr_exec *exec, const dl_bench *b) {
    for (int64_t i = 1; i < b->in_step; i++) dlr_exec_run(exec, b->accumulate, NULL);
}

/* Step by step, each with its launches' times: on a device that is done when a call returns. */
static void time_each(dlr_exec *exec, dl_bench *b, int want, int64_t *ns, int64_t *sum) {
    int nlaunches = b->plan->programs.at[b->program].launches.n;
    b->cpu_ms = 1e300;
    for (double start = dl_clock_ms(); goes_on(b->steps, want, start); b->steps++) {
        double t = dl_clock_ms(), cpu = cpu_ms();
        run_before(exec, b);
        dlr_exec_run(exec, b->program, ns);
        b->ms[b->steps] = dl_clock_ms() - t, cpu = cpu_ms() - cpu;
        if (cpu < b->cpu_ms) b->cpu_ms = cpu;
        for (int i = 0; i < nlaunches; i++) sum[i] += ns[i];
    }
    b->rounds = b->steps;
}

/* Waits for the oldest run of the program that has begun, and reads its loss. */
static void end_oldest(dlr_exec *exec, const dl_bench *b) {
    dlr_exec_wait_oldest(exec);
    if (!b->predicts)
        dlr_exec_scalar(exec, dlr_exec_result(exec, b->program, DL_RESULT_LOSS, NULL));
}

/* As a run has them: the loss of a step is read when the next has begun, so that the device never
 * waits for the host. Its kernels are timed afterwards, one after the other. */
static void time_ahead(dlr_exec *exec, dl_bench *b, int want, int64_t *ns, int64_t *sum) {
    int nlaunches = b->plan->programs.at[b->program].launches.n, started = 0,
        ahead = b->in_step > 1 ? 1 : dlr_exec_ahead(exec);
    double start = dl_clock_ms(), last = start;
    for (; goes_on(b->steps, want, start); b->steps++) {
        for (; started - b->steps < ahead; started++)
            run_before(exec, b), dlr_exec_start(exec, b->program);
        end_oldest(exec, b);
        double now = dl_clock_ms();
        b->ms[b->steps] = now - last, last = now;
    }
    for (int taken = b->steps; taken < started; taken++) end_oldest(exec, b);
    b->cpu_ms = -1;
    for (b->rounds = 0; b->rounds < KERNEL_ROUNDS; b->rounds++) {
        run_before(exec, b);
        dlr_exec_run(exec, b->program, ns);
        for (int i = 0; i < nlaunches; i++) sum[i] += ns[i];
    }
}

/* All that is measured of a plan that runs; the ceilings before and after. */
static bool measure(dl_arena *arena, dlr_exec *exec, const dl_target *target, const char *device,
                    int want, dl_bench *b, dl_error *err) {
    int nlaunches = b->plan->programs.at[b->program].launches.n;
    int64_t *ns = DL_NEWS(arena, int64_t, nlaunches + 1),
            *sum = DL_NEWS(arena, int64_t, nlaunches + 1);
    double t = dl_clock_ms();
    dlr_view loss = dlr_exec_result(exec, b->program, DL_RESULT_LOSS, NULL);
    if (!loss.type && !b->predicts)
        return dl_fail(err, DL_INPUT, "the model states no loss to train on");
    run_before(exec, b);
    dlr_exec_run(exec, b->program, NULL);
    if (loss.type) dlr_exec_scalar(exec, loss);
    b->first_ms = dl_clock_ms() - t;
    if (!dlr_exec_memory(exec, &b->memory)) b->memory = (dlr_device_memory){0};
    struct rusage used;
    getrusage(RUSAGE_SELF, &used); /* before the peak's own buffers are mapped */
    b->rss = (int64_t)used.ru_maxrss * 1024;
    dl_peak_rates peak_rates;
    bool ok = dl_peak_rates_open(arena, b->plan, target, device, b->threads, &peak_rates, err) &&
              dl_peak_rates_measure(&peak_rates, err);
    if (ok && dlr_exec_ahead(exec) > 1)
        time_ahead(exec, b, want, ns, sum);
    else if (ok)
        time_each(exec, b, want, ns, sum);
    b->loss = ok && loss.type ? dlr_scalar(exec, loss) : NAN;
    ok = ok && dl_peak_rates_measure(&peak_rates, err) && dlr_exec_check(exec, err);
    b->ns = sum, b->gflops = peak_rates.gflops, b->gbytes = peak_rates.gbytes;
    dl_peak_rates_close(&peak_rates);
    return ok;
}

static bool bench(const dl_invocation *call, dl_session *s, const dl_compile_options *opt,
                  const char *device, const dl_tuning *tuning, dl_error *err) {
    dl_arena *arena = call->arena;
    const dl_config *c = s->config;
    int64_t want = 0;
    int threads = (int)dl_config_int(c, DL_KEY_threads);
    if (!dl_option_int(c, "steps", 1, MAX_STEPS, &want, err)) return false;
    dl_bench b = {.session = s, .ms = DL_NEWS(arena, double, MAX_STEPS)};
    b.predicts = dl_config_option(c, "predict") != NULL;
    const dl_classes classes = dl_classes_find(arena, s->module);
    double t = dl_clock_ms();
    if (b.predicts && !dl_session_predict(s, 0, NULL, err)) return false;
    b.plan = dl_session_plan(s, opt, &b.cached, err);
    b.tuned = dl_tuning_text(arena, tuning);
    b.compile_ms = s->front_ms + dl_clock_ms() - t, t = dl_clock_ms();
    dlr_exec *exec =
        b.plan
            ? dlr_exec_open(b.plan, (dlr_exec_options){.threads = threads, .device = device}, err)
            : NULL;
    b.open_ms = dl_clock_ms() - t;
    bool ok =
        exec && dl_fill_synthetic(exec, &classes, (uint64_t)dl_config_int(c, DL_KEY_seed), err);
    if (ok) {
        b.threads = dlr_pool_threads(dlr_exec_pool(exec));
        b.program = dlr_exec_program(exec, b.predicts ? "predict" : "train");
        b.accumulate = dlr_exec_program(exec, DL_GRAPH_ACCUMULATE);
        b.in_step = b.predicts ? 1 : dl_config_int(c, DL_KEY_accumulate);
        set_batches(exec, &b);
        ok = measure(arena, exec, opt->target, device, want, &b, err);
    }
    bool kernels = dl_config_option(c, "kernels") != NULL;
    if (ok && dl_config_option(c, "json"))
        dl_bench_print_json(call->out, &b, kernels);
    else if (ok)
        dl_bench_print(call->out, &b, kernels);
    dlr_exec_close(exec);
    return ok;
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    dl_session *s = dl_open_session(call, call->config, 0, err);
    dl_compile_options opt;
    dl_device_choice on;
    dl_tuning tuning;
    if (!s) return false;
    dl_pass_on_warnings(call, s);
    bool ok = dl_device_choose(call->arena, dl_config_str(c, DL_KEY_device),
                               dl_config_option(c, "target"), &on, err) &&
              dl_session_options(s, on.target, &opt, err);
    if (ok && on.warning) dl_console_warning(call->out, on.warning);
    opt.out = call->out;
    ok = ok && dl_tune(call->arena, c, on.device, &opt, &tuning, err) &&
         bench(call, s, &opt, on.device, &tuning, err);
    dl_session_close(s);
    return ok;
}

const dl_subcommand dl_subcommand_bench = {
    .name = "bench",
    .help = "time a training step or a prediction on this machine next to its peak",
    .usage = usage,
    .options = options,
    .takes_keys = true,
    .run = run,
};
