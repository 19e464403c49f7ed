/* Assigns the values of a loop nest over rows to passes over the row, for the emitters of every
 * target. */
#ifndef DL_EMIT_PASSES_H
#define DL_EMIT_PASSES_H
#include "compiler/codegen/emit_program.h"

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
#endif
