/* The scalar program of a kernel as C statements, for the emitters of every target: one value at a
 * time, or, on CPUs, in vectors. What differs between their languages is a dialect. */
#ifndef DL_EMIT_PROGRAM_H
#define DL_EMIT_PROGRAM_H
#include "compiler/target/backend.h"
#include "ir/kernel/sweep.h"

/* How the program's values are written; each is of its own type. */
typedef enum {
    DL_LANES,  /* vectors along one axis, of f32, i32 and truth values */
    DL_SINGLE, /* one point at a time, of any type */
} dl_lane_mode;

/* How a target's language says it. */
typedef struct {
    const char *index,
        *natural; /* the type of a coordinate, and of one that is not negative: "long", */
    const char *whole, *not_signed; /* and what numbers of them end with: "L", "UL" */
    const char *coordinate;         /* what its variable is named, in front of the axis: "x" */
    bool named; /* parameters are p0, p1, ..., each of its own type; else arg[0], arg[1], ... */
} dl_dialect;
extern const dl_dialect dl_dialect_c; /* of the CPU's C */

/* Where the partial results of a reduction over all points of a sweep lie, of 8 bytes each: unit
 * after unit, by the axes that it keeps. */
typedef struct {
    int n, axis[DL_MAX_RANK]; /* outermost first; without axes of one point */
    int64_t count;            /* of one unit; a vector's worth when nothing is kept in vectors */
    int64_t at, base;   /* of the first: doubles into a unit's, whose first one's lie so many bytes
                           into the   workspace */
    int64_t units, all; /* units, and doubles of a unit */
} dl_partial;

/* Where a value that later sweeps read lies in the workspace, in elements of its own type. */
typedef struct {
    int n, axis[DL_MAX_RANK];
    int64_t base;
} dl_kept;

typedef struct dl_emitter {
    dl_buf *out;
    const dl_kernel *k;
    const dl_target *t;
    dl_arena *arena;  /* of this kernel */
    const char *name; /* of the function being written, */
    bool alone;       /* which is a phase by itself */
    dl_lane_mode mode;
    const dl_dialect *dialect;
    int lane_axis; /* the space axis along which vectors lie; -1: none */
    bool flat; /* all parameters of the full space are read straight through memory; the coordinate
                  is x0 */
    const dl_step *steps;
    dl_sweeps sweeps;
    const dl_sweep *now; /* the sweep being written; */
    unsigned
        within;  /* CUDA: axes of reductions that a thread makes by itself at a point; a bit each */
    bool strand; /* CUDA: a part of a kernel, which `block` counts the blocks of */
    int resident; /* CUDA: blocks for which registers must suffice at once; 0: the compiler's choice
                   */
    const char *
        points; /* lanes of a vector that are points where panels have others, too: in C; or NULL */
    int64_t ahead; /* floats that memory is to be asked ahead, since there is so much work beside;
                      or 0 */
    dl_partial *partial; /* by instruction: reductions over all of a sweep */
    dl_kept *kept;       /* by instruction: what sweeps.kept says */
    /* how a reduction takes in one more value, where it is not the CPU's partial results that do */
    void (*reduce)(struct dl_emitter *e, int number);
    const void *loop;         /* what it knows of the loop that is being written */
    const char *const *array; /* by instruction: the element that a load, store or read of one value
                                 touches instead of its parameter's, or NULL; NULL: none */
} dl_emitter;

/* Is a value of the type a float in the program: f32, and what is rounded to 16 bits? */
static inline bool dl_emit_is_float(dl_dtype d) { return dl_kernel_type(d) == DL_F32; }
/* What makes a value, as a float or one that is `wide` (a double), one of the type `d`: in front of
 * it, and behind. */
typedef struct {
    const char *open, *close;
} dl_cast;
dl_cast dl_emit_rounding(dl_lane_mode mode, dl_dtype d, bool wide);

/* "float": an element of memory. */
const char *dl_emit_element_type(dl_dtype d);
/* "((const float *)arg[3])", "p3": a parameter as an array. */
const char *dl_emit_param(const dl_emitter *e, int param);
static inline int64_t dl_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Can the instructions of a sweep, and what it reads, be written in vectors? */
bool dl_emit_has_lanes(const dl_emitter *e, const dl_sweep *s);
/* Do all accesses of the present sweep step through axis `b` and the one around it, `a`, as through
 * one axis? Then the coordinate of b can run through both, beside 0 for a. */
bool dl_emit_joins(const dl_emitter *e, int a, int b);
/* "const long x2 = row / 4L % 3L;" for each of these axes, outermost first, of which `number`
 * counts `count` points; axes that join are one. */
void dl_emit_split(dl_emitter *e, const char *number, int64_t count, int n, const int *axes);
/* Are all lanes of every vector in use? */
bool dl_emit_is_whole(const dl_emitter *e);
/* Are all accesses of a sweep vectors, at places that are sums of steps? Other loops gain from an
 * optimiser. */
bool dl_emit_is_plain(dl_emitter *e, const dl_sweep *s);
/* What the present sweep reads of earlier ones, then what it runs, as statements; value i is named
 * v<i>. Parameters are arg[i]; coordinates x<axis>; `n` lanes are in use; `acc` points at the
 * accumulators of a contraction; `sums` at this unit's partial results. */
void dl_emit_run(dl_emitter *e);
void dl_emit_read(dl_emitter *e, int number);
void dl_emit_instr(dl_emitter *e, int number);
/* Asks for the lines of memory that a vector of the present sweep's loads and stores will touch, of
 * arrays that no cache is sure to hold, as statements. Bytes of the largest of their elements; 0:
 * there are none. */
int dl_emit_fetch(dl_emitter *e);
/* Puts a value away for later sweeps; one value at a time. */
void dl_emit_keep(dl_emitter *e, int number);
/* "((float *)(workspace + 64L))": where such values lie. */
void dl_emit_kept_place(dl_emitter *e, int number);
/* "x0 * 12 + x3": a point's number among those of some axes, outermost first; 0 without axes. */
void dl_emit_number(dl_emitter *e, int n, const int *axis);
/* Where a parameter of this type is read or written at the index, in elements: rows, channels last
 * or panels. */
void dl_emit_address(dl_emitter *e, const dl_type *t, const dl_index *at);
/* The condition that an access stays inside its parameter. False, and nothing: it always does. */
bool dl_emit_bounds(dl_emitter *e, const dl_type *t, const dl_index *at);
/* A number of an element type; integers are whole (dl_check_constants). */
void dl_emit_constant(dl_emitter *e, dl_dtype d, double v);
/* "float", how a value stands in the program in the present mode. */
const char *dl_emit_type(const dl_emitter *e, dl_dtype d);
/* What a reduction begins with and, other than a sum, the function that takes in one more: by what
 * it is kept in (dl_emit_partial_type, of one value). */
const char *dl_emit_partial_type(const dl_kinstr *in);
const char *dl_emit_start(const dl_kinstr *in);
const char *dl_emit_combine(const dl_kinstr *in);

/* Are constants of integer types whole numbers of theirs? False: refused. */
bool dl_check_constants(const dl_kernel *k, dl_error *err);
/* What the present sweep, behind reductions whose results are there, reads of earlier ones and
 * runs; and what of both later ones read, put away. One value at a time. */
void dl_emit_run_behind(dl_emitter *e);
/* What a kernel is called and where it comes from, as a comment. */
void dl_emit_title(dl_emitter *e);
/* The kernel k, which has no contraction, in sweeps with this row (0: none; then what earlier ones
 * have stored may be read back): sets e->k, its steps and its sweeps. */
void dl_emit_by_row(dl_emitter *e, const dl_kernel *k, unsigned row);
/* Room in the workspace, behind what it has, for what later sweeps read. */
void dl_emit_find_kept(dl_emitter *e, dl_emitted *code);
/* Has a kernel room for another phase? False: refused. */
bool dl_emit_has_phase(const dl_emitter *e, const dl_emitted *code, dl_error *err);
/* Refuses a kernel, at an instruction's place in the model, as "FILE:LINE:COLUMN: error: ...".
 * False. */
bool dl_emit_refuse(const dl_kernel *k, const dl_kinstr *at, dl_error *err, const char *format, ...)
    DL_PRINTF(4, 5);
#endif
