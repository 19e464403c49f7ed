/* The alignment of tensors in memory. */
#ifndef DL_ALIGN_H
#define DL_ALIGN_H
#include <stdint.h>

/* The parts of a run's memory (arena, workspace, each thread's scratch) begin at multiples of 64
 * bytes, and so do variables, results and arguments inside the arena. */
enum { DL_PLAN_ALIGN = 64 };
static inline int64_t dl_plan_round(int64_t bytes) {
    return (bytes + DL_PLAN_ALIGN - 1) & -(int64_t)DL_PLAN_ALIGN;
}
#endif
