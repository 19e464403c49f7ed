/* Mixed precision, counted: what `dlc compile --json` says of it. */
#ifndef DL_AMP_H
#define DL_AMP_H
#include "ir/graph.h"

typedef struct {
    int64_t values[DL_NDTYPES],
        bytes[DL_NDTYPES]; /* what nodes make, by element type; variables not counted */
    int64_t saved;         /* bytes that 16 bits need less than f32 */
    int casts;             /* places where kernels round to 16 bits, in registers and stores */
    int cast_kernels;      /* kernels that exist only to cast to or from 16 bits */
} dl_amp_report;

/* Of a graph that is fused, or not yet. */
dl_amp_report dl_amp_report_of(const dl_graph *g);
#endif
