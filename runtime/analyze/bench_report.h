/* The results of `dlc bench`, as text or as JSON. */
#ifndef DL_BENCH_REPORT_H
#define DL_BENCH_REPORT_H
#include "compiler/session.h"
#include "ir/base/console.h"
#include "runtime/exec/exec.h"

typedef struct {
    const dl_session *session;
    const dl_plan *plan;
    int program, threads;
    int accumulate;    /* the program of a step's batches before its last one; -1: there is none */
    int64_t in_step;   /* batches of a step */
    bool predicts;     /* the program is "predict", not "train" */
    bool cached;       /* the plan was found, not compiled */
    const char *tuned; /* what tuning found, or NULL */
    /* ms: from the command's start to the plan; the device with the code on it; the first step, a
     * graph's capture with it */
    double compile_ms, open_ms, first_ms;
    double *ms,
        cpu_ms; /* each step's; the least CPU time of one, of all threads; below 0: not measured */
    int steps;
    double loss;       /* of the last step; NAN: the program has none */
    const int64_t *ns; /* of each launch of `program`, `rounds` runs together */
    int rounds;
    double gflops, gbytes;    /* the machine's ceilings */
    int64_t rss;              /* bytes */
    dlr_device_memory memory; /* after the first step; total 0: the device has none of its own */
} dl_bench;

/* Sorts `ms`. kernels: a line for each of them, or, in JSON, the list "kernel_times". */
void dl_bench_print(const dl_console *out, dl_bench *b, bool kernels);
void dl_bench_print_json(const dl_console *out, dl_bench *b, bool kernels);
#endif
