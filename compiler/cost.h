/* What a kernel should take: the roofline of a stated machine. */
#ifndef DL_COST_H
#define DL_COST_H
#include "compiler/target.h"
#include "ir/kernel.h"

/* Rates of this machine, all threads: measured once by dl_machine_measure and kept in the cache, or the
 * defaults. */
typedef struct {
    int threads;
    double gflops;    /* f32 multiply-adds as two, at the target's vector width */
    double gbytes;    /* DRAM, read and write together */
    double launch_us; /* a kernel that does nothing */
} dl_machine;

/* Predicted time of one run: the larger of arithmetic and traffic, each at the share of its ceiling that
 * kernels of this kind reach, plus the launch. Microseconds. */
double dl_predict_us(const dl_kernel *k, const dl_target *t);
const dl_machine *dl_machine_rates(const dl_target *t);
#endif
