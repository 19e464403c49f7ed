/* The sizes of comm_bench and mpi_bench, and how often each is summed. */
#ifndef TESTS_RANKS_BENCH_SIZES_H
#define TESTS_RANKS_BENCH_SIZES_H
#include <stdint.h>

enum { LEAST = 1024, STEP = 4, TURNS = 5 };

/* The size after this one; the largest comes last. */
static inline int64_t next_size(int64_t bytes, int64_t most) {
    return bytes < most && bytes * STEP > most ? most : bytes * STEP;
}

/* Sums in a turn: as many as move 32 MiB, so that each size takes about as long. */
static inline int times_of(int64_t bytes) {
    enum { MOST_TIMES = 100 };
    int64_t times = ((int64_t)32 << 20) / bytes;
    return times > MOST_TIMES ? MOST_TIMES : times < 1 ? 1 : (int)times;
}
#endif
