#include "ir/base/clock.h"

#include <time.h>

int64_t dl_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double dl_clock_ms(void) { return 1e-6 * (double)dl_clock_ns(); }
double dl_clock_seconds(void) { return 1e-9 * (double)dl_clock_ns(); }
