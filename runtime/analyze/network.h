/* The network between the ranks of a world: latency and bandwidth, measured. */
#ifndef NETWORK_H
#define NETWORK_H
#include "runtime/analyze/step_model.h"
#include "runtime/comm/comm.h"

enum { DL_NETWORK_SIZES = 8 };

/* An all_reduce of `bytes` bytes: the median of several measured times, and the time of the model.
 */
typedef struct {
    int64_t bytes;
    double us, model_us;
} dl_network_point;

typedef struct {
    dl_network network;
    int ranks;
    const char *backend; /* the comm's; "Open MPI v4.1.4" */
    dl_network_point points[DL_NETWORK_SIZES];
} dl_network_measured;

/* Measures all_reduces of 16 KiB to 34 MiB over all ranks of the world; takes some seconds, in
 * which nothing else should run. A collective call: all ranks make it. Fits the latency and
 * bandwidth with which dl_collective_us gives these times; all ranks get the same two. Errors:
 * DL_PEER. */
bool dl_network_measure(dlr_comm *comm, dl_network_measured *m, dl_error *err);

/* Latency and bandwidth of sums of points[i].bytes over `ranks` ranks that took points[i].us, and
 * what they then should take. Bandwidth is the slope of the larger half, latency what the slope of
 * the smaller half leaves of that half, each by medians: one disturbed size moves neither far, and
 * a cache that ends between the halves neither at all. */
void dl_network_fit(dl_network_measured *m);
#endif
