/* `dlc bench`: a training step on this machine, beside the machine's own ceilings measured in the same run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "ir/base/clock.h"
#include "programs/ceilings.h"
#include "programs/dlc.h"
#include "programs/fill.h"
#include "runtime/exec.h"

static const dl_option options[] = {
    {"json", 0, NULL, "print the figures as JSON"},
    {"target", 0, "TARGET", "cpu (the best here), cpu:avx512, cpu:avx2, cpu:generic"},
    {"steps", 0, "N", "steps to time (default: as many as take some seconds, 5 at least)"},
    {"kernels", 0, NULL, "a line for every kernel: time, share of the ceiling, source lines"},
    {"help", 'h', NULL, "this text"},
    {0},
};

static const char usage[] =
    "usage: dlc bench [MODEL.dl] [OPTION...] [--threads=N] [--key=value...]\n\n"
    "Times training steps on noise, with the machine's peak measured before and after. Without --config and\n"
    "batch size, the batch is 1.\n\n";

enum { MAX_STEPS = 1000 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A kernel above the ceiling refutes it: no figure of this run that is a share of it holds. Says so; how many
 * there are. */
static int count_above(const dl_plan *p, int program, const int64_t *ns, int steps, double gflops) {
    const dl_plan_program *prog = &p->programs.at[program];
    int above = 0;
    for (int i = 0; i < prog->launches.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[prog->launches.at[i].kernel];
        double rate = (double)k->flops * steps / (double)ns[i];
        if (rate <= gflops) continue;
        fprintf(stderr,
                "dlc: warning: kernel @%s ran at %.1f GFLOP/s, above the ceiling of %.1f that was measured: "
                "the machine was busy then, and shares of the ceiling are too high; run it again\n",
                k->name, rate, gflops);
        above++;
    }
    return above;
}

static void print_kernels(const dl_plan *p, int program, const int64_t *ns, int steps, double gflops,
                          double gbytes) {
    const dl_plan_program *prog = &p->programs.at[program];
    printf("\n  %-14s %9s %6s %9s %9s %7s %9s  %s\n", "kernel", "ms", "of all", "GFLOP/s", "GB/s", "ceiling",
           "predicted", "source");
    double all = 0;
    for (int i = 0; i < prog->launches.n; i++) all += (double)ns[i];
    for (int i = 0; i < prog->launches.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[prog->launches.at[i].kernel];
        double t = (double)ns[i] / steps, f = (double)k->flops / t, b = (double)k->bytes / t;
        double share = f / gflops > b / gbytes ? f / gflops : b / gbytes;
        printf("  @%-13s %9.3f %5.1f%% %9.1f %9.1f %6.0f%% %9.3f  %s\n", k->name, t * 1e-6,
               100.0 * (double)ns[i] / all, f, b, 100 * share, k->predicted_us * 1e-3, k->where);
    }
}

/* CPU time of all threads of this process so far. */
static double cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return 1e3 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int bench(dl_arena *arena, dl_session *s, const dl_compile_options *opt) {
    dl_error err = {0};
    const dl_config *c = s->config;
    const char *steps_text = dl_config_option(c, "steps");
    int want = steps_text ? atoi(steps_text) : 0, threads = (int)dl_config_int(c, DL_KEY_threads);
    if (steps_text && (want < 1 || want > MAX_STEPS))
        dl_fail(&err, DL_USAGE, "--steps=%s: 1 to %d", steps_text, MAX_STEPS);
    dl_plan *p = err.code ? NULL : dl_session_compile(s, opt, &err);
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = threads}, &err) : NULL;
    if (!exec || !dlc_fill(exec, (uint64_t)dl_config_int(c, DL_KEY_seed), &err)) {
        dlr_exec_close(exec);
        return dlc_fail(&err);
    }
    threads = dlr_pool_threads(dlr_exec_pool(exec));
    int train = dlr_exec_program(exec, "train");
    const int nlaunches = p->programs.at[train].launches.n;
    int64_t *ns = DL_NEWS(arena, int64_t, nlaunches), *sum = DL_NEWS(arena, int64_t, nlaunches);
    double times[MAX_STEPS], flops = 0, cpu = 1e300;
    for (int i = 0; i < nlaunches; i++)
        flops += (double)p->kernels.at[p->programs.at[train].launches.at[i].kernel].flops;

    dlr_exec_run(exec, train, NULL);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used); /* before the peak's own buffers are mapped */
    dl_ceilings ceilings;
    if (!dl_ceilings_open(arena, opt->target, NULL, threads, &ceilings, &err)) {
        dlr_exec_close(exec);
        return dlc_fail(&err);
    }
    bool ok = dl_ceilings_measure(&ceilings, &err);
    int n = 0;
    for (double start = dl_clock_ms();
         n < MAX_STEPS && (want ? n < want : n < 5 || dl_clock_ms() - start < 4000); n++) {
        double t = dl_clock_ms(), before = cpu_ms();
        dlr_exec_run(exec, train, ns);
        times[n] = dl_clock_ms() - t, before = cpu_ms() - before;
        if (before < cpu) cpu = before;
        for (int i = 0; i < nlaunches; i++) sum[i] += ns[i];
    }
    if (!ok || !dl_ceilings_measure(&ceilings, &err)) {
        dl_ceilings_close(&ceilings);
        dlr_exec_close(exec);
        return dlc_fail(&err);
    }
    double gflops = ceilings.gflops, gbytes = ceilings.gbytes;
    qsort(times, (size_t)n, sizeof *times, ascending);
    double step = n % 2 ? times[n / 2] : 0.5 * (times[n / 2 - 1] + times[n / 2]),
           share = flops / step * 1e-6 / gflops;
    int above = count_above(p, train, sum, n, gflops);
    int64_t planned = dl_plan_peak(p, threads), rss = (int64_t)used.ru_maxrss * 1024;
    if (dl_config_option(c, "json"))
        printf("{\"model\": \"%s\", \"target\": \"%s\", \"batch\": %lld, \"threads\": %d, \"steps\": %d, "
               "\"step_ms\": %.3f, \"step_ms_min\": %.3f, "
               "\"step_ms_max\": %.3f, \"step_cpu_ms_min\": %.3f, \"flops\": %.0f, \"gflops\": %.1f, "
               "\"peak_gflops\": %.1f, "
               "\"peak_gbytes\": %.1f, \"share_of_peak\": %.4f, \"kernels_above_peak\": %d, "
               "\"planned_bytes\": %lld, \"peak_rss_bytes\": %lld, \"compile_ms\": %.1f}\n",
               s->model_name, p->target, (long long)s->batch, threads, n, step, times[0], times[n - 1], cpu,
               flops, flops / step * 1e-6, gflops, gbytes, share, above, (long long)planned, (long long)rss,
               s->front_ms + s->times.passes_ms + s->times.emit_ms + s->times.cc_ms);
    else {
        printf("%s, batch %lld, %s, %d threads\n", dl_shown(s->arena, s->model_path), (long long)s->batch,
               p->target, threads);
        printf("  step          %.1f ms median of %d (%.1f to %.1f)\n", step, n, times[0], times[n - 1]);
        printf("  arithmetic    %.2f GFLOP a step, %.1f GFLOP/s: %.1f%% of this machine's %.1f\n",
               flops * 1e-9, flops / step * 1e-6, 100 * share, gflops);
        printf("  memory        %.1f MiB planned, %.1f MiB resident; a stream moves %.1f GB/s\n",
               (double)planned / 1048576, (double)rss / 1048576, gbytes);
        if (dl_config_option(c, "kernels")) print_kernels(p, train, sum, n, gflops, gbytes);
    }
    dl_ceilings_close(&ceilings);
    dlr_exec_close(exec);
    return 0;
}

int dlc_bench(dl_arena *arena, int argc, char **argv) {
    dl_error err = {0};
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (!c) return dlc_fail(&err);
    if (dl_config_option(c, "help")) return dlc_help(usage, options, c);
    int code = 0;
    dl_session *s = dlc_session(arena, c, &code);
    if (!s) return code;
    dl_compile_options opt;
    if (!dl_session_options(s, dl_config_option(c, "target"), &opt, &err)) return dlc_fail(&err);
    opt.warn = dlc_warn;
    code = bench(arena, s, &opt);
    dl_session_close(s);
    return code;
}
