/* Resident reductions on CPUs. emit_resident.c chooses the schedule and writes the loop over rows;
 * emit_row_passes.c writes the work on one row. */
#ifndef DL_EMIT_RESIDENT_H
#define DL_EMIT_RESIDENT_H
#include "compiler/codegen/emit_passes.h"
#include "compiler/cpu/emit_cpu.h"

typedef struct {
    dl_emitter *e;
    const dl_loop_nest *nest;
    int nouter, outer[DL_MAX_RANK], ninner, inner[DL_MAX_RANK]; /* outermost first */
    bool lanes, outer_lanes; /* in vectors; along an outer axis */
    bool chains;             /* sums are short: one chain of floats a lane */
    int lane_axis;
    unsigned wide; /* axes of more than one point */
    dl_row_passes passes;
    int64_t *at; /* by instruction: byte offset of a saved value in scratch */
} dl_cpu_resident;

/* Switches between vectors and scalars: for the row's points, or for the row's own values. */
void dl_emit_row_mode(const dl_cpu_resident *r, bool points);
/* "x0, x1, ": the coordinates of the outer axes, and with `inner` the row's; with `types` as
 * parameters. */
void dl_emit_row_coordinates(const dl_cpu_resident *r, bool inner, bool types);
/* The function NAME_row: all of one row, or of the rows of n lanes; and its passes. */
void dl_emit_row(const dl_cpu_resident *r);
#endif
