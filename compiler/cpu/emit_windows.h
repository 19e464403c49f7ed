/* What the emitters of contractions by windows share: the geometry, constant tables for the loops
 * of compiler/cpu/kernels/, and the function that finishes one position. */
#ifndef DL_EMIT_WINDOWS_H
#define DL_EMIT_WINDOWS_H
#include "compiler/cpu/emit_cpu.h"

/* What the two vectors of lanes of a panel read: `terms` channels, or words, from `first` on, the
 * second one `apart` further on. */
typedef struct {
    int64_t first, apart, terms;
} dl_reads;
typedef struct {
    int64_t alike,
        n;         /* columns that read the same follow each other, `alike` at a time; such runs */
    dl_reads *at;  /* of each of them */
    int64_t terms; /* at most */
    int vectors;   /* 2: of some column both read terms of their own */
    bool mixed;    /* some vector reads more than a group has */
} dl_reading;
/* Of so many lanes in groups that read `per` each. Vectors read apart where both together would
 * read more. */
dl_reading dl_find_reading(dl_arena *arena, const dl_target *t, int64_t lanes, int64_t groups,
                           int64_t per);
/* All of them read as many terms, of `all`. */
void dl_reading_even(dl_reading *r, int64_t all);
/* Can a unit have so many columns of all? They read the same; or, where rows can `move` to what the
 * next one reads, since they are read where they lie, as many terms near by. */
bool dl_reading_joins(const dl_reading *r, int64_t all, int64_t columns, bool move);
/* The table <kernel>_reads. */
void dl_emit_reads(dl_emitter *e, const dl_reading *r);

/* A contraction by windows as the tables need it. */
typedef struct {
    const dl_kinstr *c;
    const dl_kernel *k;
    dl_relation r;
    int weight, image; /* places of w and, where an image is made, of the other one */
    int64_t stride[3], dilation[3], pad[3], kernel[3], x[3], y[3];
    int64_t batch, taps;
    int64_t weight_o, weight_c; /* w's first two axes, as they are stored */
    int64_t summed;             /* channels that a position's sums go over, */
    dl_reading reading;         /* those of each column; of an image */
    int64_t joined; /* places of x along W that are one place's channels here; 1: none are */
    bool gathered;  /* few channels: all taps of a position are copied into a row */
    bool pairs;     /* by words of two: dl_shape_words of them */
} dl_shape;

/* Positions of x along one axis that read y at the same taps: q + stride * j, taps first + step *
 * i, i < taps, which read y at base + j - i * fall. */
typedef struct {
    int64_t count, shift, first, step, taps, base, fall;
} dl_parity;

dl_shape dl_shape_find(const dl_kernel *k, const dl_kinstr *c);
int64_t dl_shape_words(const dl_shape *s);
dl_parity dl_shape_parity(const dl_shape *s, int axis, int64_t q);
/* A part of operand `operand`. */
const dl_type *dl_shape_part(const dl_kernel *k, const dl_kinstr *c, int operand, int part);

/* ".name = {1, 2, 3}, " */
void dl_emit_three(dl_buf *out, const char *name, const int64_t *v);
/* The table <kernel>_<name> of an operand's parts, as elements or as words of two. */
void dl_emit_parts(dl_emitter *e, const dl_shape *s, int operand, const char *name);
/* The tables <kernel>_parts, _taps and _positions of an image that is made: y, or x by parity of
 * its positions. Units of a target's row block by `unit_columns` panels of the result's channels;
 * how many entries _positions has. */
typedef struct {
    int positions;
    int64_t units, groups,
        columns; /* groups of so many columns; 0: positions have groups of their own */
} dl_tables;
dl_tables dl_emit_tables(dl_emitter *e, const dl_shape *s, int64_t unit_columns);
/* The table <kernel>_shape behind them: struct contraction. */
void dl_emit_shape(dl_emitter *e, const dl_shape *s, const int64_t *in, const int64_t *out,
                   const int64_t *scale, int64_t channels, int64_t columns, int64_t unit_columns,
                   int positions);
/* Do units of the same rows follow each other, else those of the same columns? */
bool dl_units_by_rows(const dl_target *t, const dl_shape *s);
/* The same with what an image that is made reads, as it is. */
void dl_emit_image_shape(dl_emitter *e, const dl_shape *s, int64_t unit_columns, int positions);
/* Both. A unit has several columns, `most` of them, where their sums are one chain, their weights
 * stay in cache and enough units are left to share. */
dl_tables dl_emit_image(dl_emitter *e, const dl_shape *s, int64_t most);

/* What stands behind the sum: <kernel>_body, and around it <kernel>_point, which finishes a
 * position, or <kernel>_rows, which finishes some rows of a block. */
void dl_emit_body(dl_emitter *e);
/* The head of a function <kernel>_<name> on one vector: its place, lanes, accumulators and `sums`.
 */
void dl_emit_vector_head(dl_emitter *e, const char *name);
/* Around a loop that runs bodies: a unit's sums, which keep nothing, as variables that can stay in
 * registers, and given back. What bodies take in the place of `sums`. */
const char *dl_emit_take_sums(dl_emitter *e);
const char *dl_emit_warmth(const dl_emitter *e); /* of the function that the loop stands in */
void dl_emit_give_sums(dl_emitter *e);
/* <kernel>_lines, which asks for the lines that <kernel>_body will touch. How many elements it asks
 * for; 0: none, and nothing is written. */
int dl_emit_lines(dl_emitter *e);
void dl_emit_point(dl_emitter *e);
void dl_emit_rows_behind(dl_emitter *e);
/* <kernel>_fetch, which asks memory for all that <kernel>_rows will touch; its name, or "0": there
 * is nothing. */
const char *dl_emit_rows_fetch(dl_emitter *e);
/* "void <kernel>_<phase>(...) {" */
void dl_emit_head(dl_emitter *e, int phase);
/* Bytes of struct rows_scratch. */
enum {
    DL_ROW_BYTES = 9 * 4, /* of struct rows, a row */
    DL_MOST_PLACES =
        1 << 30 /* along an axis, so that one a window's reach away is an int of the kernels, too */
};
int64_t dl_emit_rows_scratch(const dl_target *t); /* with the sums of one column */
/* Goes it by bands of AMX's tiles? Then columns go together however long their sums are. */
bool dl_emit_by_bands(const dl_emitter *e, const dl_shape *s);

/* A weight gradient as the loops of compiler/cpu/kernels/weight.c take it, whose tables <kernel>_x,
 * <kernel>_y and whose <kernel>_block, which finishes sums, stand before it. */
typedef struct {
    int64_t batch, in[3], out[3], scale[3], dilation[3], pad[3], kernel[3];
    int nx, ny;              /* parts of x and of dy */
    bool packs;              /* x is no array of floats, and never read where it lies */
    bool pairs;              /* both are bf16, which the target multiplies: positions go by two */
    int64_t channels, lanes; /* of x that a lane reads, of dy */
    dl_reading reading;      /* which of x's a panel's lanes read */
    /* found by dl_emit_gradient: see struct weight_gradient */
    int64_t run, rows, groups, panels, unit_groups, unit_rows, unit_panels, blocks, shares;
    bool direct, gathered;
    int64_t height; /* rows of a tile */
} dl_gradient;
void dl_emit_gradient(dl_emitter *e, dl_gradient *g, dl_emitted *code);
void dl_emit_weight_gradient(dl_emitter *e, const dl_shape *s, dl_emitted *code);
/* <kernel>_body for a weight in panels, which is read and written straight through. */
void dl_emit_panel_body(dl_emitter *e, const dl_shape *s);

/* An image of which each group has one channel, as in what it reads: position by position. */
void dl_emit_depthwise(dl_emitter *e, const dl_shape *s, dl_emitted *code);
/* A weight gradient lane by lane, each of which picks the channels of its group. Is it cheaper than
 * tiles? */
bool dl_emit_goes_by_lanes(const dl_emitter *e, const dl_shape *s);
void dl_emit_lanes_gradient(dl_emitter *e, const dl_shape *s, dl_emitted *code);
#endif
