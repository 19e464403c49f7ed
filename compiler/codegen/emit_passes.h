/* Resident reductions, for every target: assigns the values of a loop nest over rows to passes over
 * the row, and builds the loops of one row. Between passes the reductions over the row are
 * complete. Values that a later pass needs stay in the work item's own memory, unless they are
 * recomputed. */
#ifndef DL_EMIT_PASSES_H
#define DL_EMIT_PASSES_H
#include "compiler/codegen/loops.h"

/* A value belongs to the row (one for all its points) or to each point. A pass computes what its
 * roots need; roots are reductions over the row, stores, and sums over more than the row. A pass
 * recomputes trivial values, and reads others that an earlier pass has saved. */
typedef struct {
    int n;        /* passes */
    bool *shared; /* by instruction: one value per row */
    bool *read;   /* by instruction: comes from an earlier loop nest */
    int *pass;    /* by instruction: pass of a root that runs at points; -1 */
    bool *saved;  /* by instruction: saved for later passes */
    bool **made;  /* by pass and instruction: computed, or read from an earlier loop nest */
    bool **taken; /* by pass and instruction: an operand of something that the pass computes */
} dl_row_passes;

/* The passes of loop nest `s`. saves: whether values are saved between passes; constants: whether
 * each pass writes its own constants. */
dl_row_passes dl_emit_find_passes(const dl_emitter *e, const dl_loop_nest *s, bool saves,
                                  bool constants);
bool dl_emit_reduces_row(const dl_emitter *e, const dl_loop_nest *s, int number);
/* Is it a reduction over more than the row, or over other axes? */
bool dl_emit_reduces_more(const dl_emitter *e, const dl_loop_nest *s, int number);
/* The axes over whose points a root runs. */
unsigned dl_emit_root_axes(const dl_emitter *e, int number);

/* The loops of a row that are being built; a target's own begin with this. */
struct dl_row_target;
typedef struct {
    const struct dl_row_target *by;
    const dl_loop_nest *nest;
    dl_row_passes passes;
    int64_t *at; /* by instruction: byte of a saved value in the work item's own memory */
    dl_loops l;
    dl_expr *own;     /* by instruction: the accumulator of a reduction */
    dl_expr *reduced; /* by instruction: the result of all of its lanes */
    int pass;         /* the pass being built; -1: the end of the row */
    dl_expr place;    /* in it, of a point's saved values */
} dl_rows;

/* How a target builds the parts of a row. */
typedef struct dl_row_target {
    dl_expr (*start)(dl_rows *r, int number); /* declares the accumulator of a reduction of rows */
    void (*open)(dl_rows *r), (*close)(dl_rows *r); /* the loop of a pass, which sets `place` */
    void (*grow)(dl_rows *r, int number);  /* takes the present value into the accumulator */
    void (*instr)(dl_rows *r, int number); /* runs another instruction of a pass or of the end */
    /* Sets `reduced` of n reductions, which are complete. */
    void (*reduce)(dl_rows *r, int n, const int *numbers);
} dl_row_target;

dl_rows dl_rows_of(const dl_emitter *e, const dl_loop_nest *s);
/* Builds one row: its passes, and the stores and sums that run once. */
void dl_emit_row(dl_rows *r);
#endif
