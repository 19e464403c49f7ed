#include "runtime/analyze/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/foreign.h"
#include "runtime/formats/json.h"
#include "runtime/tune/peak_rates.h"

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *ms, int n) {
    qsort(ms, (size_t)n, sizeof *ms, ascending);
    return n % 2 ? ms[n / 2] : 0.5 * (ms[n / 2 - 1] + ms[n / 2]);
}

static const dl_plan_program *program_of(const dl_bench *b) {
    return &b->plan->programs.at[b->program];
}

static const dl_plan_kernel *kernel_of(const dl_bench *b, int launch) {
    return &b->plan->kernels.at[program_of(b)->launches.at[launch].kernel];
}

static double flops_of_program(const dl_bench *b, int program) {
    const dl_plan_program *p = &b->plan->programs.at[program];
    double flops = 0;
    for (int i = 0; i < p->launches.n; i++)
        flops += (double)b->plan->kernels.at[p->launches.at[i].kernel].flops;
    return flops;
}

/* Arithmetic of a step, or of a prediction. */
static double flops_of(const dl_bench *b) {
    double before = b->in_step > 1 ? flops_of_program(b, b->accumulate) : 0;
    return (double)(b->in_step - 1) * before + flops_of_program(b, b->program);
}

static double samples_of(const dl_bench *b) { return (double)(b->session->batch * b->in_step); }

/* One launch, in ms: the time it took, and the time it would take at the ceiling that is the lower
 * one for it. */
typedef struct {
    double ms, floor_ms;
    bool memory; /* that of memory */
} launch_time;

static launch_time time_of(const dl_bench *b, int launch) {
    const dl_plan_kernel *k = kernel_of(b, launch);
    double compute = (double)k->flops / b->gflops * 1e-6,
           memory = (double)k->bytes / b->gbytes * 1e-6;
    return (launch_time){.ms = (double)b->ns[launch] * 1e-6 / b->rounds,
                         .floor_ms = memory >= compute ? memory : compute,
                         .memory = memory >= compute};
}

/* A kernel above the ceiling refutes it: no figure of this run that is a share of it holds. Says
 * so; how many there are. */
static int count_above(const dl_console *out, const dl_bench *b) {
    int above = 0;
    const dl_plan_kernel *fastest = NULL;
    double most = b->gflops;
    for (int i = 0; i < program_of(b)->launches.n; i++) {
        const dl_plan_kernel *k = kernel_of(b, i);
        double rate = (double)k->flops * b->rounds / (double)b->ns[i];
        if (rate > most) most = rate, fastest = k;
        above += rate > b->gflops;
    }
    if (fastest)
        dl_console_warning(
            out, dl_format(b->session->arena,
                           "%d kernels ran above the ceiling of %.1f GFLOP/s that was measured, "
                           "@%s at %.1f: the machine was busy then, and shares of the ceiling are "
                           "too high; run it again",
                           above, b->gflops, fastest->name, most));
    return above;
}

static void print_kernels(const dl_console *out, const dl_bench *b) {
    if (b->in_step > 1) dl_console_text(out, "\n  kernels of a step's last batch:\n");
    dl_console_text(out, "\n  %-14s %9s %6s %9s %9s %7s %9s  %s\n", "kernel", "ms", "of all",
                    "GFLOP/s", "GB/s", "ceiling", "predicted", "source");
    double all = 0;
    for (int i = 0; i < program_of(b)->launches.n; i++) all += time_of(b, i).ms;
    for (int i = 0; i < program_of(b)->launches.n; i++) {
        const dl_plan_kernel *k = kernel_of(b, i);
        launch_time t = time_of(b, i);
        dl_console_text(out, "  @%-13s %9.3f %5.1f%% %9.1f %9.1f %6.0f%% %9.3f  %s\n", k->name,
                        t.ms, 100 * t.ms / all, (double)k->flops / t.ms * 1e-6,
                        (double)k->bytes / t.ms * 1e-6, 100 * t.floor_ms / t.ms,
                        k->predicted_us * 1e-3, k->where);
    }
}

void dl_bench_print(const dl_console *out, dl_bench *b, bool kernels) {
    double step = median(b->ms, b->steps), flops = flops_of(b);
    count_above(out, b);
    const char *of =
        b->in_step > 1 ? dl_format(b->session->arena, ", %lld a step", (long long)b->in_step) : "";
    dl_console_text(out, "%s, batch %lld%s, %s, %d threads\n",
                    dl_shown(b->session->arena, b->session->model_path),
                    (long long)b->session->batch, of, b->plan->target, b->threads);
    dl_console_text(out,
                    "  %-13s %.*f ms median of %d (%.1f to %.1f), %.1f samples a second; the first "
                    "%.0f ms after "
                    "the start\n",
                    b->predicts ? "prediction" : "step", step < 1 ? 4 : 1, step, b->steps, b->ms[0],
                    b->ms[b->steps - 1], 1e3 * samples_of(b) / step,
                    b->compile_ms + b->open_ms + b->first_ms);
    dl_console_text(
        out, "  arithmetic    %.2f GFLOP each, %.1f GFLOP/s: %.1f%% of this machine's %.1f in %s\n",
        flops * 1e-9, flops / step * 1e-6, 100 * flops / step * 1e-6 / b->gflops, b->gflops,
        dl_peak_rates_counted(b->plan));
    dl_console_text(
        out, "  memory        %.1f MiB planned, %.1f MiB resident; a stream moves %.1f GB/s\n",
        (double)dl_plan_peak(b->plan, b->threads) / 1048576, (double)b->rss / 1048576, b->gbytes);
    if (b->memory.total)
        dl_console_text(
            out, "  device        %.1f MiB in use, %.1f predicted, of %.1f; %.1f of them before\n",
            (double)b->memory.seen / 0x1p20, (double)dlr_device_predicted(&b->memory) / 0x1p20,
            (double)b->memory.total / 0x1p20, (double)b->memory.before / 0x1p20);
    if (b->tuned) dl_console_text(out, "  tuning        %s\n", b->tuned);
    if (kernels) print_kernels(out, b);
}

static void put_kernels(const dl_bench *b, dl_buf *to) {
    for (int i = 0; i < program_of(b)->launches.n; i++) {
        const dl_plan_kernel *k = kernel_of(b, i);
        launch_time t = time_of(b, i);
        dl_puts(to, i ? ", {" : "{");
        dlr_json_put_key(to, "name"), dlr_json_put_string(to, k->name);
        dlr_json_put_key(to, "code"), dlr_json_put_string(to, k->symbol);
        dlr_json_put_key(to, "where"), dlr_json_put_string(to, k->where);
        dlr_json_put_key(to, "variant"), dlr_json_put_string(to, k->variant);
        dl_putf(to,
                ", \"ms\": %.6f, \"floor_ms\": %.6f, \"bound\": \"%s\", \"flops\": %lld, "
                "\"bytes\": %lld, "
                "\"predicted_ms\": %.6f}",
                t.ms, t.floor_ms, t.memory ? "memory" : "compute", (long long)k->flops,
                (long long)k->bytes, k->predicted_us * 1e-3);
    }
}

void dl_bench_print_json(const dl_console *out, dl_bench *b, bool kernels) {
    double step = median(b->ms, b->steps), flops = flops_of(b);
    dl_buf list = {0};
    if (kernels) put_kernels(b, &list);
    dl_console_text(out,
                    "{\"model\": \"%s\", \"program\": \"%s\", \"target\": \"%s\", \"batch\": %lld, "
                    "\"accumulate\": %lld, \"threads\": %d, \"steps\": %d, "
                    "\"step_ms\": %.4f, \"step_ms_min\": %.4f, \"step_ms_max\": %.4f, ",
                    b->session->model_name, program_of(b)->name, b->plan->target,
                    (long long)b->session->batch, (long long)b->in_step, b->threads, b->steps, step,
                    b->ms[0], b->ms[b->steps - 1]);
    if (b->cpu_ms >= 0) dl_console_text(out, "\"step_cpu_ms_min\": %.3f, ", b->cpu_ms);
    if (isfinite(b->loss))
        dl_console_text(out, "\"loss\": %.9g, ", b->loss);
    else
        dl_console_text(out, "\"loss\": null, ");
    dl_console_text(
        out,
        "\"samples_per_s\": %.4f, \"flops\": %.0f, \"gflops\": %.1f, \"peak_gflops\": %.1f, "
        "\"peak_of\": "
        "\"%s\", "
        "\"peak_gbytes\": %.1f, \"share_of_peak\": %.4f, \"kernels_above_peak\": %d, ",
        1e3 * samples_of(b) / step, flops, flops / step * 1e-6, b->gflops,
        dl_peak_rates_counted(b->plan), b->gbytes, flops / step * 1e-6 / b->gflops,
        count_above(out, b));
    if (b->memory.total)
        dl_console_text(
            out,
            "\"device_bytes\": %lld, \"device_bytes_predicted\": %lld, \"device_bytes_before\": "
            "%lld, "
            "\"device_bytes_total\": %lld, ",
            (long long)b->memory.seen, (long long)dlr_device_predicted(&b->memory),
            (long long)b->memory.before, (long long)b->memory.total);
    dl_console_text(out,
                    "\"planned_bytes\": %lld, \"peak_rss_bytes\": %lld, \"plan_cached\": %s, "
                    "\"compile_ms\": %.1f, "
                    "\"open_ms\": %.1f, \"first_run_ms\": %.1f, \"first_step_ms\": %.1f%s%s%s}\n",
                    (long long)dl_plan_peak(b->plan, b->threads), (long long)b->rss,
                    b->cached ? "true" : "false", b->compile_ms, b->open_ms, b->first_ms,
                    b->compile_ms + b->open_ms + b->first_ms,
                    kernels ? ", \"kernel_times\": [" : "", kernels && list.at ? list.at : "",
                    kernels ? "]" : "");
    dl_buf_free(&list);
}
