/* Which pass over its row each value of a sweep is made in, for the emitters of every target. */
#ifndef DL_EMIT_PASSES_H
#define DL_EMIT_PASSES_H
#include "compiler/codegen/emit_program.h"

/* A value is the row's (one for all its points) or the points'. A pass makes what its roots need:
 * reductions over the row, stores, and sums over more than the row; again, what is cheap, and else
 * it finds what an earlier pass has put away. */
typedef struct {
    int n;        /* passes */
    bool *shared; /* by instruction: one value a row */
    bool *read;   /* by instruction: comes from an earlier sweep */
    int *pass;    /* by instruction: of a root of points; -1 */
    bool *saved;  /* by instruction: is put away for later passes */
    bool **made;  /* by pass and instruction: computed, or read from an earlier sweep */
    bool **taken; /* by pass and instruction: something that the pass makes takes it */
} dl_row_passes;

/* The passes of sweep `s`. saves: whether values are put away; constants: whether each pass has
 * those that it takes anew. */
dl_row_passes dl_emit_find_passes(const dl_emitter *e, const dl_sweep *s, bool saves,
                                  bool constants);
bool dl_emit_reduces_row(const dl_emitter *e, const dl_sweep *s, int number);
/* A reduction over more than the row, or other axes. */
bool dl_emit_reduces_more(const dl_emitter *e, const dl_sweep *s, int number);
/* At whose points a root runs. */
unsigned dl_emit_root_axes(const dl_emitter *e, int number);
#endif
