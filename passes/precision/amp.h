/* Counts of mixed precision, which `dlc compile --json` prints. */
#ifndef DL_AMP_H
#define DL_AMP_H
#include "ir/graph.h"

typedef struct {
    int64_t values[DL_NDTYPES],
        bytes[DL_NDTYPES]; /* bytes of nodes' results by element type; without variables */
    int64_t saved;         /* bytes that 16 bits save compared with f32 */
    int casts;             /* how many values kernels round to 16 bits, in registers and stores */
    int cast_kernels;      /* kernels that exist only to cast to or from 16 bits */
} dl_amp_report;

/* The graph may be fused or not. */
dl_amp_report dl_amp_report_of(const dl_graph *g);
#endif
