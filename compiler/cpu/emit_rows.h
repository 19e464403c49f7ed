/* Between the two files that write sweeps over rows for CPUs: emit_rows.c chooses how, and writes
 * the loop over rows; emit_row_passes.c writes what is done with one. */
#ifndef DL_EMIT_ROWS_H
#define DL_EMIT_ROWS_H
#include "compiler/codegen/emit_passes.h"
#include "compiler/cpu/emit_cpu.h"

typedef struct {
    dl_emitter *e;
    const dl_sweep *sweep;
    int nouter, outer[DL_MAX_RANK], ninner, inner[DL_MAX_RANK]; /* outermost first */
    bool lanes, across;                                         /* vectors; along an outer axis */
    bool chains; /* sums are one float a lane: they are short */
    int lane_axis;
    unsigned wide; /* axes of other than one point */
    dl_row_passes passes;
    int64_t *at; /* by instruction: where in scratch what is saved lies, in bytes */
} dl_cpu_rows;

/* Values in vectors, or one at a time: those of the row's points, or those that are the row's own.
 */
void dl_emit_row_mode(const dl_cpu_rows *r, bool points);
/* "x0, x1, ": the coordinates of the outer axes, and with `inner` the row's; with `types` as
 * parameters. */
void dl_emit_row_coordinates(const dl_cpu_rows *r, bool inner, bool types);
/* The function NAME_row: all of one row, or of the rows of n lanes; and its passes. */
void dl_emit_row(const dl_cpu_rows *r);
#endif
