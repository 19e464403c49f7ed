/* Shared by the emitters of windowed contractions: the geometry, constant tables for the loops
 * of compiler/cpu/kernels/, and the epilogue function of one position. */
#ifndef DL_EMIT_WINDOWS_H
#define DL_EMIT_WINDOWS_H
#include "compiler/cpu/emit_cpu.h"
#include "ir/kernel/gemm.h"

/* The K range of a panel's two vectors of lanes: `terms` channels, or bf16 pairs, from `first`
 * on, for the second vector `vector_offset` further on. */
typedef struct {
    int64_t first, vector_offset, terms;
} dl_k_range;
typedef struct {
    int64_t panels_a_range, n; /* consecutive panels with equal K ranges, `panels_a_range` at a
                                  time; the number of such runs */
    dl_k_range *at;            /* the K range of each run */
    int64_t terms;             /* maximum of their terms */
    int vectors;               /* 2: some panel's vectors have different K ranges */
    bool multi_group;          /* some vector's lanes belong to several groups */
} dl_k_ranges;
/* The K ranges of so many lanes in groups of `own` lanes that each read `per` channels. Vectors
 * get different ranges where one for both would be larger. */
dl_k_ranges dl_find_k_ranges(dl_arena *arena, const dl_target *t, int64_t lanes, int64_t groups,
                             int64_t per);
/* Makes all ranges equally long, within `all`. */
void dl_k_ranges_equalize(dl_k_ranges *r, int64_t all);
/* Can a work item have so many of all panels? Their K ranges are equal; or, where rows are read
 * in place and can `move` to the next range, equally long and near by. */
bool dl_k_ranges_can_share(const dl_k_ranges *r, int64_t all, int64_t columns, bool move);
/* Writes the table <kernel>_k_ranges. */
void dl_emit_k_ranges(dl_emitter *e, const dl_k_ranges *r);

/* The geometry of a windowed contraction, as the tables need it. */
typedef struct {
    const dl_kinstr *c;
    const dl_kernel *k;
    int weight, image; /* places of w and, where an image is computed, of the other operand */
    dl_conv_sizes size;
    int64_t taps;
    int64_t weight_o, weight_c; /* w's first two axes, as stored */
    int64_t summed;             /* channels that a position's sums go over, */
    dl_k_ranges k_ranges;       /* the K range of each panel, where an image is computed */
    int64_t merged;             /* pixels of x along W that are merged into one; 1: none are */
    bool im2col; /* few channels: all taps of a position are copied into an im2col row */
    bool pairs;  /* K elements are bf16 pairs: dl_conv_pairs of them */
} dl_conv_problem;

dl_conv_problem dl_conv_find(const dl_kernel *k, const dl_kinstr *c);
int64_t dl_conv_pairs(const dl_conv_problem *s);
/* A part of operand `operand`. */
const dl_type *dl_conv_part(const dl_kernel *k, const dl_kinstr *c, int operand, int part);

/* ".name = {1, 2, 3}, " */
void dl_emit_three(dl_buf *out, const char *name, const int64_t *v);
/* The table <kernel>_<name> of an operand's parts, in elements or bf16 pairs. */
void dl_emit_parts(dl_emitter *e, const dl_conv_problem *s, int operand, const char *name);
/* The tables <kernel>_parts, _taps and _positions of an image that is computed: y, or x by
 * stride phase. Work items are a target's row block by `item_columns` panels of the result's
 * channels. `positions`: entries of _positions. */
typedef struct {
    int positions;
    int64_t items, groups, columns; /* groups of so many panels; 0: each stride phase has its own */
} dl_tables;
/* Writes the table <kernel>_shape, after the others: struct contraction. */
void dl_emit_shape(dl_emitter *e, const dl_conv_problem *s, const int64_t *in, const int64_t *out,
                   const int64_t *scale, int64_t channels, int64_t columns, int64_t item_columns,
                   int positions);
/* Is the panel the inner axis of the work items' order? Otherwise the row block is. */
bool dl_items_by_rows(const dl_target *t, const dl_conv_problem *s);
/* The tables of an image that is computed, and its shape. A work item has several panels, at most
 * `most`, where their sums are one chain, their weights stay in cache, and enough work items remain
 * for all threads. */
dl_tables dl_emit_image(dl_emitter *e, const dl_conv_problem *s, int64_t most);

/* The same of work items that have so many panels. */
dl_tables dl_emit_image_by(dl_emitter *e, const dl_conv_problem *s, int64_t columns);
/* The partial results of the epilogue's reductions. Work items of the same rows that reduce
 * different channels share one set. */
void dl_emit_panel_sums(dl_emitter *e, const dl_conv_problem *s, dl_tables t, dl_emitted *code);
/* A convolution, or the gradient of an input, by the variant of ir/kernel/winograd.h: phase 0
 * transforms the weight, phase 1 multiplies. */
void dl_emit_winograd(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code);

/* The epilogue: <kernel>_body, and around it <kernel>_point, for one position, or <kernel>_rows,
 * for some rows of a block. */
void dl_emit_body(dl_emitter *e);
/* The head of a function <kernel>_<name> on one vector: its index, lanes, accumulators and
 * `sums`. */
void dl_emit_vector_head(dl_emitter *e, const char *name);
/* Keeps a work item's sums without axes in registers: around a loop over epilogues they are
 * local variables, and stored afterwards. Returns the argument to pass as `sums`. */
const char *dl_emit_take_sums(dl_emitter *e);
const char *
dl_emit_warmth(const dl_emitter *e); /* attribute (hot or not) of the function that has the loop */
void dl_emit_give_sums(dl_emitter *e);
/* Writes <kernel>_lines, which prefetches the cache lines that <kernel>_body accesses. Returns
 * the elements per prefetch; 0: there are none, and nothing is written. */
int dl_emit_prefetch_lines(dl_emitter *e);
void dl_emit_point(dl_emitter *e);
void dl_emit_rows_epilogue(dl_emitter *e);
/* Writes <kernel>_fetch, which prefetches all memory that <kernel>_rows accesses. Returns its
 * name, or "0": there is none. */
const char *dl_emit_prefetch_rows(dl_emitter *e);
/* "void <kernel>_<phase>(...) {" */
void dl_emit_head(dl_emitter *e, int phase);
/* Bytes of struct rows_scratch. */
enum {
    DL_ROW_BYTES = 9 * 4, /* of struct rows, per row */
    /* per axis, so that an index one window further still fits the kernels' int */
    DL_MOST_PLACES = 1 << 30
};
int64_t dl_emit_rows_scratch(const dl_target *t); /* with the sums of one panel */
/* Is it computed by AMX strips? Then panels go together, however long their sums are. */
bool dl_emit_by_amx(const dl_emitter *e, const dl_conv_problem *s);

/* A weight gradient for the loops of compiler/cpu/kernels/weight.c. The emitter writes the
 * tables <kernel>_x, <kernel>_y and the epilogue <kernel>_block before it. */
typedef struct {
    int64_t batch, in[3], out[3], scale[3], dilation[3], pad[3], kernel[3];
    int nx, ny;              /* parts of x and of dy */
    bool packs;              /* x is not an array of floats, and is never read in place */
    bool pairs;              /* both are bf16 that the target multiplies: positions are paired */
    int64_t channels, lanes; /* channels of x that a lane reads, lanes: channels of dy */
    dl_k_ranges k_ranges;    /* the channels of x that each panel reads */
    bool winograd;           /* by the variant of ir/kernel/winograd.h */
    /* found by dl_emit_wgrad: see struct weight_gradient */
    int64_t run, rows, groups, panels, item_groups, item_rows, item_panels, blocks, splits;
    bool direct, im2col;
    int64_t height; /* rows of a tile */
} dl_wgrad_problem;
void dl_emit_wgrad(dl_emitter *e, dl_wgrad_problem *g, dl_emitted *code);
/* The scratch memory of its work items, by Winograd's transforms (kernels/weight_winograd.c). */
void dl_emit_winograd_scratch(dl_emitter *e, const dl_wgrad_problem *g, dl_emitted *code);
void dl_emit_wgrad_kernel(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code);
/* <kernel>_body for a weight in panels, which is read and written contiguously. */
void dl_emit_panel_body(dl_emitter *e, const dl_conv_problem *s);

/* A depthwise convolution, or its input gradient: position by position. */
void dl_emit_depthwise(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code);
/* Is a weight gradient cheaper lane by lane, where each lane selects the channels of its group,
 * than by tiles? */
bool dl_emit_is_by_lanes(const dl_emitter *e, const dl_conv_problem *s);
void dl_emit_lanes_gradient(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code);
#endif
