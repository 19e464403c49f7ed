/* `dlc estimate-scaling`: how long a step takes by ranks, from kernels measured here and a network
 * of two numbers, which are given or measured. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/clock.h"
#include "ir/base/foreign.h"
#include "runtime/analyze/analyze.h"
#include "runtime/analyze/io_estimate.h"
#include "runtime/analyze/network.h"
#include "runtime/analyze/step_model.h"
#include "runtime/analyze/synthetic_inputs.h"
#include "runtime/exec/exec.h"
#include "runtime/launch/launch.h"
#include "runtime/setup/rank_groups.h"

static const dl_option options[] = {
    {"ranks", 0, "N,N,...", "numbers of ranks to look at (2,8,64,512)"},
    {"latency", 0, "US", "of the network, microseconds a message (20)"},
    {"bandwidth", 0, "GB/S", "of the network, from one rank, GB a second (1)"},
    {"target", 0, "TARGET",
     "take kernels as they are predicted for it (dlc compile --help), timing none"},
    {"measure", 0, "N", "measure both, between N ranks that mpirun starts"},
    {"json", 0, NULL, "print the figures as one JSON object"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc estimate-scaling [MODEL.dl] [--ranks=2,8,64,512] [OPTION...] [--key=value...]\n\n"
    "How long a training step takes on so many ranks, each with local_batch_size samples (1): the "
    "plan of\n"
    "one rank is compiled for each number, its kernels are timed here, or taken as predicted for "
    "--target,\n"
    "and its collectives take latency + bytes / bandwidth a message, in parallel with kernels "
    "until they "
    "are\n"
    "waited for. With --measure=2 both are measured, by sums of many sizes between two ranks on "
    "this "
    "machine;\n"
    "`mpirun -n 2 --hostfile F dlc estimate-scaling ...` measures between others. Efficiency is "
    "samples a "
    "second and\n"
    "rank, relative to one rank. Not in it: waiting for data or for slower ranks, networks whose "
    "parts are\n"
    "shared.\n"
    "Of the data that the configuration names it tells what ranks ask of the file system, each and "
    "all:\n"
    "bytes a training step, files opened and metadata operations (open, close, stat, listing of "
    "folders) at\n"
    "the start and in an epoch. It opens the data and reads some samples to count; where they are "
    "not here\n"
    "it says so, and tells the rest.\n\n";

enum { LEAST_ROUNDS = 3, MOST_ROUNDS = 30, ROUNDS_MS = 250, MOST_NUMBERS = 16 };

/* Each launch's least time of some rounds, on noise: as many as fit into a quarter of a second,
 * since others may use the machine. */
static bool time_launches(dl_arena *arena, const dl_plan *plan, const dl_classes *classes,
                          const dl_ranks *ranks, int threads, double **us, dl_error *err) {
    int world = dl_ranks_world(ranks), program = 0;
    dlr_comm **comms = dlr_comm_local(world, false);
    dlr_group groups[DL_NRANK_GROUPS];
    dlr_exec *e = NULL;
    bool ok = dl_groups_make(arena, comms[0], ranks, 0, groups, err);
    if (ok) {
        dlr_exec_options o = {.threads = threads, .ranks = {comms[0], DL_NRANK_GROUPS, groups}};
        e = dlr_exec_open(plan, o, err);
    }
    ok = e && dl_fill_synthetic(e, classes, 1, err);
    program = ok ? dlr_exec_program(e, "train") : -1;
    int n = ok ? plan->programs.at[program].launches.n : 0;
    *us = DL_NEWS(arena, double, n + 1);
    if (ok) dlr_exec_refresh_copies(e);
    double start = dl_clock_ms();
    for (int round = 0;
         ok && (round < LEAST_ROUNDS || (round < MOST_ROUNDS && dl_clock_ms() - start < ROUNDS_MS));
         round++)
        for (int i = 0; i < n; i++) {
            double began = dl_clock_ms();
            dlr_exec_run_launch(e, program, i);
            double took = 1e3 * (dl_clock_ms() - began);
            if (!round || took < (*us)[i]) (*us)[i] = took;
        }
    dlr_exec_close(e);
    for (int r = 0; r < world; r++) dlr_comm_close(comms[r], NULL);
    free(comms);
    return ok;
}

/* The numbers of ranks to look at, each once: one rank, to compare with, and --ranks. */
static bool read_list(const dl_config *c, int *n, int numbers[MOST_NUMBERS + 1], dl_error *err) {
    const char *text = dl_config_option(c, "ranks"), *s = text ? text : "2,8,64,512";
    numbers[0] = *n = 1;
    for (int named = 0; named < MOST_NUMBERS; named++, s++) {
        char *end = NULL;
        long v = strtol(s, &end, 10);
        if (end == s || v < 1 || v > 4096 || (*end && *end != ',')) break;
        bool had = false;
        for (int i = 0; i < *n; i++) had |= numbers[i] == v;
        if (!had) numbers[(*n)++] = (int)v;
        if (!*end) return true;
        s = end;
    }
    return dl_fail(err, DL_USAGE,
                   "--ranks=%.100s: up to %d numbers from 1 to 4096, commas between them", text,
                   MOST_NUMBERS);
}

typedef struct {
    int ranks, data_ranks; /* that have samples of their own */
    int64_t batch;
    dl_scaled of;
    int64_t peak;
} line;

/* Each launch's time by the target's cost model. */
static const double *predict_launches(dl_arena *arena, const dl_plan *plan,
                                      const dl_plan_program *p) {
    double *us = DL_NEWS(arena, double, p->launches.n + 1);
    for (int i = 0; i < p->launches.n; i++)
        us[i] = plan->kernels.at[p->launches.at[i].kernel].predicted_us;
    return us;
}

/* The plan of the first of `ranks` ranks, on paper. */
static bool look_at(const dl_invocation *call, dl_session *s, const dl_network *network,
                    const char *target, line *to, dl_error *err) {
    dl_arena *arena = call->arena;
    dl_compile_options opt;
    double *us = NULL;
    if (!dl_session_check_one_batch(s, "dlc estimate-scaling", err) ||
        !dl_session_options(s, target, &opt, err))
        return false;
    opt.out = call->out;
    const dl_classes classes = dl_classes_find(arena, s->module);
    dl_plan *plan = dl_session_compile(s, &opt, err);
    int threads = (int)dl_config_int(s->config, DL_KEY_threads);
    if (!plan || (!target && !time_launches(arena, plan, &classes, &s->ranks, threads, &us, err)))
        return false;
    const dl_plan_program *train = dl_plan_program_find(plan, "train");
    *to = (line){
        .ranks = dl_ranks_world(&s->ranks),
        .data_ranks = s->ranks.size[DL_RANKS_DP],
        .batch = s->batch,
        .of = dl_scale_program(train, target ? predict_launches(arena, plan, train) : us, network),
        .peak = dl_plan_peak(plan, threads ? threads : 1)};
    return true;
}

/* Samples a second and rank, relative to one rank. */
static double efficiency(const line *lines, int i) {
    const line *l = &lines[i];
    return l->of.step_ms > 0 ? lines[0].of.step_ms / l->of.step_ms * l->data_ranks / l->ranks : 0;
}

static const dl_io_job *jobs_of(dl_arena *arena, const line *lines, int n) {
    dl_io_job *jobs = DL_NEWS(arena, dl_io_job, n);
    for (int i = 0; i < n; i++)
        jobs[i] =
            (dl_io_job){lines[i].ranks, lines[i].data_ranks, lines[i].batch, lines[i].of.step_ms};
    return jobs;
}

static void print_json(const dl_console *out, const dl_session *s, const line *lines, int n,
                       const dl_network_measured *m, const dl_io_estimate *data) {
    dl_console_text(out, "{\"latency_us\": %g, \"bandwidth_gbs\": %g, \"batch\": %lld, ",
                    m->network.latency_us, m->network.bandwidth_gbs, (long long)s->batch);
    for (int i = 0; m->ranks && i < DL_NETWORK_SIZES; i++)
        dl_console_text(out, "%s{\"bytes\": %lld, \"us\": %.6g, \"model_us\": %.6g}%s",
                        i ? ", " : "\"measured\": [", (long long)m->points[i].bytes,
                        m->points[i].us, m->points[i].model_us,
                        i + 1 < DL_NETWORK_SIZES ? "" : "], ");
    dl_console_text(out, "\"scale\": [");
    for (int i = 0; i < n; i++) {
        const line *l = &lines[i];
        dl_console_text(
            out,
            "%s{\"ranks\": %d, \"step_ms\": %.6g, \"compute_ms\": %.6g, \"network_ms\": %.6g, "
            "\"exposed_ms\": %.6g, \"efficiency\": %.6g, \"bytes\": %lld, \"collectives\": %d, "
            "\"peak_bytes\": %lld}",
            i ? ", " : "", l->ranks, l->of.step_ms, l->of.compute_ms, l->of.network_ms,
            l->of.exposed_ms, efficiency(lines, i), (long long)l->of.bytes, l->of.collectives,
            (long long)l->peak);
    }
    dl_console_text(out, "], ");
    dl_io_print_json(out, data, jobs_of(s->arena, lines, n), n);
    dl_console_text(out, "}\n");
}

/* How well two numbers say what was measured. */
static void print_measured(const dl_console *out, const dl_network_measured *m) {
    dl_console_text(out, "sums over %d ranks by %s, microseconds, and what the two numbers say:",
                    m->ranks, m->backend);
    for (int i = 0; i < DL_NETWORK_SIZES; i++)
        dl_console_text(out, "%s %lld KiB %.0f (%.0f)", i ? ";" : "",
                        (long long)m->points[i].bytes / 1024, m->points[i].us,
                        m->points[i].model_us);
    dl_console_text(out, "\n");
}

static void print(const dl_console *out, const dl_session *s, const line *lines, int n,
                  const dl_network_measured *m, const dl_io_estimate *data) {
    if (m->ranks) print_measured(out, m);
    dl_console_text(out,
                    "%s, %lld samples a rank; network: %.3g us a message, %.3g GB/s\n"
                    "%8s %10s %10s %10s %10s %10s %12s %10s\n",
                    dl_shown(s->arena, s->model_path), (long long)s->batch, m->network.latency_us,
                    m->network.bandwidth_gbs, "ranks", "step ms", "kernels", "network", "exposed",
                    "efficient", "MiB a step", "peak MiB");
    for (int i = 0; i < n; i++) {
        const line *l = &lines[i];
        dl_console_text(out, "%8d %10.2f %10.2f %10.2f %10.2f %9.0f%% %12.2f %10.1f\n", l->ranks,
                        l->of.step_ms, l->of.compute_ms, l->of.network_ms, l->of.exposed_ms,
                        100 * efficiency(lines, i), (double)l->of.bytes / 0x1p20,
                        (double)l->peak / 0x1p20);
    }
    dl_io_print(out, data, jobs_of(s->arena, lines, n), n);
}

/* ---- the network ---- */

/* The network as described, and as many ranks to measure it between as --measure says. */
static bool read_network(const dl_config *c, dl_network *network, int *measure, dl_error *err) {
    int64_t n = 0;
    if (!dl_option_int(c, "measure", 2, 4096, &n, err)) return false;
    if (n && (dl_config_option(c, "latency") || dl_config_option(c, "bandwidth")))
        return dl_fail(err, DL_USAGE,
                       "--measure finds what --latency and --bandwidth say: leave them out");
    *measure = (int)n;
    network->latency_us = 20, network->bandwidth_gbs = 1;
    return dl_option_real(c, "latency", 1e-12, 1e12, &network->latency_us, err) &&
           dl_option_real(c, "bandwidth", 1e-12, 1e12, &network->bandwidth_gbs, err);
}

/* In each of the ranks: all but the first are done then. */
static bool measure(int asked, dl_network_measured *m, dlr_world *world, dl_error *err) {
    dlr_comm *comm = dlr_comm_open(&(dlr_world_options){.timeout = 60}, err);
    if (!comm) return false;
    *world = dlr_comm_world(comm);
    if (asked && asked != world->size)
        dl_fail(err, DL_USAGE, "--measure=%d, and there are %d ranks: leave it out", asked,
                world->size);
    bool ok = !err->code && dl_network_measure(comm, m, err);
    return dlr_comm_close(comm, err) && ok; /* before kernels are timed: nothing else runs then */
}

/* Starts `n` ranks of this very command, of which the first goes on when the others have ended.
 * argv[0] is its name, which follows the program's. */
static bool start_ranks(const dl_invocation *call, int n, int *status, dl_error *err) {
    return dl_launch(n, 0, call->argc + 1, call->argv - 1, status, call->out, err);
}

static bool scale(const dl_invocation *call, const int *numbers, int n,
                  const dl_network_measured *network, dl_error *err) {
    const char *target = dl_config_option(call->config, "target");
    line lines[MOST_NUMBERS + 1];
    dl_session *s = NULL;
    dl_io_estimate data = {0};
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        dl_session_close(s);
        s = dl_reopen_session(call, numbers[i], err);
        if (s && i == n - 1) dl_io_estimate_of(s, target && dl_target_is_gpu(target), &data);
        ok = s && look_at(call, s, &network->network, target, &lines[i], err);
    }
    if (ok && dl_config_option(call->config, "json"))
        print_json(call->out, s, lines, n, network, &data);
    else if (ok)
        print(call->out, s, lines, n, network, &data);
    dl_session_close(s);
    return ok;
}

static bool run(dl_invocation *call, dl_error *err) {
    int numbers[MOST_NUMBERS + 1], n = 0, asked = 0;
    dl_network_measured network = {0};
    dlr_world_said said;
    dlr_world world = {.size = 1};
    const dl_config *c = call->config;
    if (!read_list(c, &n, numbers, err) || !read_network(c, &network.network, &asked, err) ||
        !dlr_world_read(&said, err))
        return false;
    bool is_rank = said.size_name && said.world.size > 1;
    if (asked && !is_rank) return start_ranks(call, asked, &call->status, err);
    if (is_rank) dl_launch_begin(said.world.rank);
    bool ok = (!is_rank || measure(asked, &network, &world, err)) &&
              (world.rank || scale(call, numbers, n, &network, err));
    if (is_rank) dl_launch_report(world.rank, ok ? DL_OK : (int)err->code);
    return ok;
}

const dl_subcommand dl_subcommand_estimate_scaling = {
    .name = "estimate-scaling",
    .former_name = "scale",
    .help = "how long a step of many ranks takes, by kernels timed here and a network",
    .usage = usage,
    .options = options,
    .takes_keys = true,
    .run = run,
};
