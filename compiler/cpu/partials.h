/* Partial results of a sweep's reductions: each unit leaves its own in the workspace, and the
 * sweep behind combines them in the order of units; what later sweeps read stays there. And the
 * head of a sweep's function. */
#ifndef DL_CPU_PARTIALS_H
#define DL_CPU_PARTIALS_H
#include "compiler/codegen/emit_program.h"

/* The head of the function e->name. */
void dl_emit_sweep_head(dl_emitter *e);
/* Where the present sweep's partial results lie, axes in order of `order`; their number a unit. */
int64_t dl_emit_find_partial(dl_emitter *e, int norder, const int *order);
/* Units that share partial results, each its own part of their axis: `unit` is which of `units`
 * such results, [from, to) the part, as C expressions. */
typedef struct {
    int64_t units;
    const char *unit, *from, *to; /* from and to NULL: all, which nobody shares */
} dl_sharing;
/* `sums`: a unit's partial results, set to their start. They lie behind what else the kernel keeps
 * in the workspace, which then has room for those of all. */
void dl_emit_sums(dl_emitter *e, const dl_sharing *s, dl_emitted *code);
/* The same where no units share. */
void dl_emit_unit_sums(dl_emitter *e, int64_t units, dl_emitted *code);
#endif
