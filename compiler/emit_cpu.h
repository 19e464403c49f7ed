/* Shared by the emitters of one target: the scalar program of a kernel as C, in vectors or one value at a
 * time. */
#ifndef DL_EMIT_CPU_H
#define DL_EMIT_CPU_H
#include "compiler/emit.h"

/* How the program's values are written; each is of its own type. */
typedef enum {
    DL_LANES,  /* vectors along one axis, of f32, i32 and truth values */
    DL_SINGLE, /* one point at a time, of any type */
} dl_lane_mode;

typedef struct {
    dl_buf *out;
    const dl_kernel *k;
    const dl_target *t;
    dl_lane_mode mode;
    int lane_axis; /* the space axis along which vectors lie; -1: none */
    bool flat; /* all parameters of the full space are read straight through memory; the coordinate is x0 */
    int kept;  /* reductions keep this many axes, */
    int keep[DL_MAX_RANK]; /* these, in the order in which partial sums lie */
    int64_t kept_count;    /* product of their sizes; 1 when none */
} dl_emitter;

static inline int64_t dl_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Can instructions [0, end) be written in vectors? */
bool dl_emit_has_lanes(const dl_kernel *k, int end);
/* Instructions [from, to) as statements; value i is named v<i>. Parameters are arg[i]; coordinates x<axis>;
 * `n` lanes are in use; `acc` points at the accumulators of a contraction; `sums` at this unit's partial
 * results. */
void dl_emit_program(dl_emitter *e, int from, int to);
int dl_emit_reductions(const dl_kernel *k);
/* Partial results, of 8 bytes each, that a unit leaves in the workspace; 0 without reductions. */
int64_t dl_emit_partial(const dl_emitter *e);
/* Statements that set a unit's partial results to their start. */
void dl_emit_clear_sums(const dl_emitter *e);
/* One more phase: combines the partial results of `units` units, which lie at byte `at` of the workspace, in
 * order, and runs what stands behind. */
void dl_emit_reduced_phase(dl_emitter *e, int64_t units, int64_t at, dl_emitted *code);
/* Sets kept, keep and kept_count: the axes that the reductions leave, in order of `order`. */
void dl_emit_find_kept(dl_emitter *e, const int *order);

/* Refuses a kernel, at an instruction's place in the model, as "FILE:LINE:COLUMN: error: ...". False. */
bool dl_emit_refuse(const dl_kernel *k, const dl_kinstr *at, dl_error *err, const char *format, ...)
    DL_PRINTF(4, 5);

/* emit_within.c: reductions that each kept point does by itself. False, and nothing written, where that does
 * not pay. */
bool dl_emit_within(dl_emitter *e, dl_emitted *code);
bool dl_emit_scatter(dl_emitter *e, dl_emitted *code, dl_error *err); /* a store at places that values tell */
bool dl_emit_pointwise(dl_emitter *e, dl_emitted *code, dl_error *err);
bool dl_emit_product(dl_emitter *e, dl_emitted *code, dl_error *err); /* contractions by names */
bool dl_emit_contraction(dl_emitter *e, dl_emitted *code, dl_error *err);
#endif
