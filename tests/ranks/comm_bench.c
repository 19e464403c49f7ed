/* Measures collectives between the ranks that started this: mpirun -n 2 comm_bench. A line each
 * for rank 0: all_reduce alone by size, and next to a computation of one thread that needs no
 * message.
 *
 * `comm_bench sums MOST` prints `bytes ms ms` for sums of 1 KiB, 4 KiB, ... and MOST bytes of
 * float32: in the order of the ranks, and by MPI_Iallreduce within the same engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ir/base/clock.h"
#include "runtime/comm/comm.h"
#include "tests/ranks/bench_sizes.h"

static void leave(const dl_error *err) {
    fprintf(stderr, "%s\n", err->message);
    _Exit(err->code);
}

static double cpu_ms(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static volatile double sink;

static void compute(int64_t steps) {
    double x = 1;
    for (int64_t i = 0; i < steps; i++) x = x * 0.999999 + (double)(i & 7);
    sink = x;
}

/* Milliseconds of one sum, the mean of several. */
static double sum_ms(dlr_comm *comm, const dlr_collective *c, int times) {
    dl_error err = {0};
    if (!dlr_comm_barrier(comm, &err)) leave(&err);
    double from = dl_clock_ms();
    for (int i = 0; i < times; i++)
        if (!dlr_comm_all(comm, c, &err)) leave(&err);
    return (dl_clock_ms() - from) / times;
}

/* Each order by turns, so that a busy machine is as busy for both. */
static int print_sums(dlr_comm *comm, int64_t most) {
    dl_error err = {0};
    bool first = dlr_comm_world(comm).rank == 0;
    float *x = most > 0 ? calloc((size_t)most, 1) : NULL;
    if (!x) dl_fail(&err, DL_USAGE, "usage: comm_bench sums BYTES"), leave(&err);
    for (int64_t bytes = LEAST; bytes <= most; bytes = next_size(bytes, most)) {
        dlr_collective c = {.type = DL_F32,
                            .count = bytes / (int64_t)sizeof *x,
                            .from = x,
                            .to = x,
                            .what = "all_reduce of x"};
        double least[2] = {INFINITY, INFINITY};
        for (int turn = 0; turn < 2 * TURNS; turn++) {
            const int which = turn % 2;
            dlr_comm_set_sums(comm, which ? DLR_SUMS_MPI : DLR_SUMS_FIXED);
            least[which] = fmin(least[which], sum_ms(comm, &c, times_of(bytes)));
        }
        if (first) printf("%lld %.6f %.6f\n", (long long)bytes, least[0], least[1]);
        fflush(stdout);
    }
    free(x);
    return dlr_comm_close(comm, &err) ? 0 : DL_PEER;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    dlr_comm *comm = dlr_comm_open(&(dlr_world_options){.timeout = 60}, &err);
    if (!comm) leave(&err);
    if (argc > 2 && strcmp(argv[1], "sums") == 0) return print_sums(comm, atoll(argv[2]));
    bool first = dlr_comm_world(comm).rank == 0;
    enum { MOST = 16 << 20 };
    float *x = calloc(MOST, sizeof *x);
    for (int64_t n = 1; n <= MOST; n *= 8) {
        int times = n > 1 << 20 ? 10 : 200;
        dlr_collective c = {
            .type = DL_F32, .count = n, .from = x, .to = x, .what = "all_reduce of x"};
        dlr_comm_barrier(comm, &err);
        double from = dl_clock_ms();
        for (int i = 0; i < times; i++)
            if (!dlr_comm_all(comm, &c, &err)) leave(&err);
        double ms = (dl_clock_ms() - from) / times;
        if (first)
            printf("%10lld bytes: %8.3f ms, %6.2f GB/s\n", (long long)n * 4, ms,
                   (double)n * 4e-6 / ms);
    }
    int64_t steps = 100000000; /* some tenths of a second */
    dlr_collective c = {
        .type = DL_F32, .count = MOST, .from = x, .to = x, .what = "all_reduce of x"};
    for (int round = 0; round < 3; round++) {
        dlr_comm_barrier(comm, &err);
        double t0 = dl_clock_ms();
        compute(steps);
        double alone = dl_clock_ms() - t0;
        dlr_comm_barrier(comm, &err);
        t0 = dl_clock_ms();
        if (!dlr_comm_all(comm, &c, &err)) leave(&err);
        double sum = dl_clock_ms() - t0;
        dlr_comm_barrier(comm, &err);
        double cpu = cpu_ms();
        t0 = dl_clock_ms();
        int64_t ticket = dlr_comm_start(comm, &c);
        compute(steps);
        double computed = dl_clock_ms() - t0;
        if (!dlr_comm_wait(comm, ticket, &err)) leave(&err);
        double both = dl_clock_ms() - t0;
        if (first)
            printf("64 MiB: computation %.0f ms, all_reduce %.0f ms; together %.0f ms, of which "
                   "%.0f waited, "
                   "CPU %.0f ms\n",
                   alone, sum, both, both - computed, cpu_ms() - cpu);
    }
    free(x);
    return dlr_comm_close(comm, &err) ? 0 : DL_PEER;
}
