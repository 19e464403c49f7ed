/* Measures MPI's own sums between the ranks that started this, next to comm_bench sums:
 *
 *     mpirun -n 2 mpi_bench MOST
 *
 * prints `bytes ms ms` for 1 KiB, 4 KiB, ... and MOST bytes of float32: MPI_Iallreduce in place,
 * and the persistent one, which MPI 4 has (`-` without it). The thread that waits spins.
 * bench/scale compiles it with the mpicc of each MPI. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/ranks/bench_sizes.h"

static void must(int error, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (!error) return;
    MPI_Error_string(error, text, &length);
    fprintf(stderr, "%s: %.*s\n", what, length, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wait_for(MPI_Request *r) { must(MPI_Wait(r, MPI_STATUS_IGNORE), "MPI_Wait"); }

static double once_ms(float *x, int count, int times) {
    MPI_Request r;
    must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    const double from = MPI_Wtime();
    for (int i = 0; i < times; i++) {
        must(MPI_Iallreduce(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &r),
             "MPI_Iallreduce");
        wait_for(&r);
    }
    return 1e3 * (MPI_Wtime() - from) / times;
}

#if MPI_VERSION >= 4
static double persistent_ms(float *x, int count, int times) {
    MPI_Request r;
    must(MPI_Allreduce_init(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &r),
         "MPI_Allreduce_init");
    must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    const double from = MPI_Wtime();
    for (int i = 0; i < times; i++) {
        must(MPI_Start(&r), "MPI_Start");
        wait_for(&r);
    }
    const double ms = 1e3 * (MPI_Wtime() - from) / times;
    must(MPI_Request_free(&r), "MPI_Request_free");
    return ms;
}
#else
static double persistent_ms(float *x, int count, int times) {
    (void)x, (void)count, (void)times;
    return INFINITY;
}
#endif

int main(int argc, char **argv) {
    int rank = 0;
    must(MPI_Init(&argc, &argv), "MPI_Init");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int64_t most = argc > 1 ? atoll(argv[1]) : 0;
    float *x = most > 0 ? calloc((size_t)most, 1) : NULL;
    if (!x) {
        fprintf(stderr, "usage: mpi_bench BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int64_t bytes = LEAST; bytes <= most; bytes = next_size(bytes, most)) {
        const int count = (int)(bytes / (int64_t)sizeof *x), times = times_of(bytes);
        double once = INFINITY, persistent = INFINITY;
        for (int turn = 0; turn < TURNS; turn++) {
            once = fmin(once, once_ms(x, count, times));
            persistent = fmin(persistent, persistent_ms(x, count, times));
        }
        if (!rank && isfinite(persistent))
            printf("%lld %.6f %.6f\n", (long long)bytes, once, persistent);
        else if (!rank)
            printf("%lld %.6f -\n", (long long)bytes, once);
    }
    free(x);
    return MPI_Finalize() != MPI_SUCCESS;
}
