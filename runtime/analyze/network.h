/* The network between the ranks of a world, as two numbers that are measured. */
#ifndef NETWORK_H
#define NETWORK_H
#include "runtime/analyze/step_model.h"
#include "runtime/comm/comm.h"

enum { DL_NETWORK_SIZES = 8 };

/* One sum of so many bytes over all ranks: median of some, as measured and by the two numbers. */
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

/* Sums of 16 KiB to 34 MiB over all ranks of the world, which all call this, one at a time and
 * nothing else running: some seconds. Latency and bandwidth are those by which dl_collective_us
 * says the same, on all ranks the same. Errors: DL_PEER. */
bool dl_network_measure(dlr_comm *comm, dl_network_measured *m, dl_error *err);

/* Latency and bandwidth of sums of points[i].bytes over `ranks` ranks that took points[i].us, and
 * what they then should take. Bandwidth is the slope of the larger half, latency what the slope of
 * the smaller half leaves of that half, each by medians: one disturbed size moves neither far, and
 * a cache that ends between the halves neither at all. */
void dl_network_fit(dl_network_measured *m);
#endif
