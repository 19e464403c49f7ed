/* A model of the time of a training step on several ranks: kernels take their measured times, and
 * collectives the times of a model of the network. */
#ifndef DL_STEP_MODEL_H
#define DL_STEP_MODEL_H
#include "ir/plan/plan.h"

/* A message of n bytes takes latency + n / bandwidth (Hockney 1994). */
typedef struct {
    double latency_us, bandwidth_gbs;
} dl_network;

typedef struct {
    double step_ms;    /* of a rank */
    double compute_ms; /* its kernels alone */
    double network_ms; /* its collectives alone, one after the other */
    double exposed_ms; /* that the rank stands still for them */
    int64_t bytes;     /* that they carry */
    int collectives;
} dl_scaled;

/* How long a collective takes between its ranks: a reduce-scatter and an all-gather for a sum, one
 * of them for the others, each in which every rank sends its share to each other rank (Thakur et
 * al. 2005; runtime/comm/phases.c). */
double dl_collective_us(const dl_plan_collective *c, const dl_network *network);
/* Walks the steps of a program: launch i takes launch_us[i], collectives run one after the other
 * in parallel with them, and a wait ends when its collective does. */
dl_scaled dl_scale_program(const dl_plan_program *p, const double *launch_us,
                           const dl_network *network);
#endif
