/* Shared by the emitters of the CPU's kernels. */
#ifndef DL_EMIT_CPU_H
#define DL_EMIT_CPU_H
#include "compiler/cpu/cpu.h"
#include "compiler/emit_program.h"

/* Where the present sweep's partial results lie, axes in order of `order`; their number a unit. */
int64_t dl_emit_find_partial(dl_emitter *e, int norder, const int *order);
/* Units that share partial results, each its own part of their axis: `unit` is which of `units` such results,
 * [from, to) the part, as C expressions. */
typedef struct {
    int64_t units;
    const char *unit, *from, *to; /* from and to NULL: all, which nobody shares */
} dl_sharing;
/* `sums`: a unit's partial results, set to their start. They lie behind what else the kernel keeps in the
 * workspace, which then has room for those of all. */
void dl_emit_sums(dl_emitter *e, const dl_sharing *s, dl_emitted *code);
/* The same where no units share. */
void dl_emit_unit_sums(dl_emitter *e, int64_t units, dl_emitted *code);
/* A sweep behind reductions as function e->name: combines units' partial results in order, and runs what
 * stands behind. */
int64_t dl_emit_behind(dl_emitter *e, const dl_sweep *s);
/* The head of the function e->name. */
void dl_emit_sweep_head(dl_emitter *e);
/* The kernel's sweeps from number `from` on, each stage in a phase or two. False: refused. */
bool dl_emit_sweeps(dl_emitter *e, int from, dl_emitted *code, dl_error *err);

/* One sweep as the function e->name; how many units it has. emit_pointwise.c; over rows: emit_rows.c */
int64_t dl_emit_points(dl_emitter *e, dl_emitted *code);
int64_t dl_emit_rows(dl_emitter *e, dl_emitted *code);
bool dl_emit_scatter(dl_emitter *e, dl_emitted *code, dl_error *err); /* a store at places that values tell */
bool dl_emit_pointwise(dl_emitter *e, dl_emitted *code, dl_error *err);
bool dl_emit_product(dl_emitter *e, dl_emitted *code, dl_error *err);   /* contractions by names */
bool dl_emit_attention(dl_emitter *e, dl_emitted *code, dl_error *err); /* calls of either template */
bool dl_emit_contraction(dl_emitter *e, dl_emitted *code, dl_error *err);
#endif
