#include "runtime/analyze/network.h"

#include <math.h>
#include <stdlib.h>

#include "ir/base/clock.h"
#include "ir/base/memory.h"

enum { FIRST_BYTES = 16384, GROWTH = 3, MOST_TIMES = 41, SPENT_US = 300000 };
static const double least_latency = 0.01,
                    most_bandwidth = 1e6; /* us, GB/s: what a fit must stay within */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The median slope between two of n points (Theil 1950), microseconds a byte. */
static double slope_of(const dl_network_point *p, int n) {
    double slopes[DL_NETWORK_SIZES * DL_NETWORK_SIZES];
    int found = 0;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            slopes[found++] = (p[k].us - p[i].us) / (double)(p[k].bytes - p[i].bytes);
    return median(slopes, found);
}

void dl_network_fit(dl_network_measured *m) {
    enum { HALF = DL_NETWORK_SIZES / 2 };
    double rests[HALF], others = m->ranks - 1, share = others / m->ranks;
    double few = slope_of(m->points, HALF),
           many = slope_of(m->points + HALF, DL_NETWORK_SIZES - HALF);
    for (int i = 0; i < HALF; i++) rests[i] = m->points[i].us - few * (double)m->points[i].bytes;
    /* of a sum each message's latency counts twice, and so does each byte's share */
    m->network =
        (dl_network){.latency_us = fmax(median(rests, HALF) / (2 * others), least_latency),
                     .bandwidth_gbs = fmin(2 * share / fmax(many, 1e-12) * 1e-3, most_bandwidth)};
    for (int i = 0; i < DL_NETWORK_SIZES; i++)
        m->points[i].model_us =
            2 * (others * m->network.latency_us +
                 share * (double)m->points[i].bytes / (m->network.bandwidth_gbs * 1e3));
}

/* The median of rank 0's times; each sum begins after the end of the one before on all ranks. */
static bool time_sums(dlr_comm *comm, float *data, dl_network_point *p, dl_error *err) {
    dlr_collective c = {.type = DL_F32,
                        .count = p->bytes / (int64_t)sizeof *data,
                        .from = data,
                        .to = data,
                        .what = "all_reduce to measure the network"};
    double us[MOST_TIMES], spent = 0;
    int n = 0, enough = 0;
    while (!enough) {
        if (!dlr_comm_barrier(comm, err)) return false;
        double from = dl_clock_ms();
        if (!dlr_comm_all(comm, &c, err)) return false;
        us[n] = 1e3 * (dl_clock_ms() - from);
        spent += n ? us[n] : 0;
        n++;
        if (!dlr_comm_agree(comm, n == MOST_TIMES || (n > 5 && spent > SPENT_US), &enough, err))
            return false;
    }
    p->us = median(us + 1, n - 1); /* the first one's memory is new */
    return true;
}

bool dl_network_measure(dlr_comm *comm, dl_network_measured *m, dl_error *err) {
    m->ranks = dlr_comm_world(comm).size, m->backend = dlr_comm_backend(comm);
    int64_t bytes = FIRST_BYTES;
    for (int i = 0; i < DL_NETWORK_SIZES; i++, bytes *= GROWTH) m->points[i].bytes = bytes;
    float *data = dl_calloc((size_t)(bytes / GROWTH), 1);
    bool ok = true;
    for (int i = 0; ok && i < DL_NETWORK_SIZES; i++) ok = time_sums(comm, data, &m->points[i], err);
    if (!ok) return false; /* messages into `data` may still come */
    dl_network_fit(m);
    dlr_collective same = {.kind = DLR_BROADCAST,
                           .type = DL_F64,
                           .count = 2,
                           .from = &m->network,
                           .to = &m->network,
                           .what = "broadcast of the network's measure"};
    ok = dlr_comm_all(comm, &same, err);
    if (ok) free(data);
    return ok;
}
