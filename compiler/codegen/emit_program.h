/* Emits the scalar program of a kernel as C statements, for every target: one value at a time,
 * or, on CPUs, in vectors. The differences between the targets' languages are in a dialect. */
#ifndef DL_EMIT_PROGRAM_H
#define DL_EMIT_PROGRAM_H
#include "compiler/target/backend.h"
#include "ir/base/counts.h"
#include "ir/kernel/contraction_rules.h"
#include "ir/kernel/schedule.h"

/* How the program's values are written; each has its own type. */
typedef enum {
    DL_LANES,  /* vectors along one axis, of f32, i32 and bool */
    DL_SINGLE, /* one point at a time, of any type */
} dl_lane_mode;

/* The syntax of a target's language. */
typedef struct {
    const char *index, *natural; /* the type of a coordinate, and of a non-negative one: "long", */
    const char *whole, *not_signed; /* suffixes of their literals: "L", "UL" */
    const char *coordinate;         /* prefix of a coordinate's variable, before the axis: "x" */
    bool named; /* parameters are p0, p1, ..., each of its own type; else arg[0], arg[1], ... */
    const char *truth;  /* the type of a bool */
    const char *memory; /* a work item's own */
    const char *thread; /* the thread's index in its work item; NULL: a work item has one thread, */
    const char *barrier, *shared, *unroll;         /* which has no use for these */
    const char *(*operation)(const dl_kinstr *in); /* a reduction's operator in the library */
} dl_dialect;
extern const dl_dialect dl_dialect_c; /* the CPU's C */

/* A load or a store: it has a parameter and an index. */
static inline bool dl_emit_is_access(const dl_kinstr *in) {
    return in->kind == DL_K_LOAD || in->kind == DL_K_STORE;
}

/* Axes of the space, outermost first, and the number of their points. */
typedef struct {
    int n, axis[DL_MAX_RANK];
    int64_t points;
} dl_axis_list;

/* Partial results of a reduction over all points of a loop nest: where they are in the workspace.
 * Each has 8 bytes; they are ordered by item, then by the axes that the reduction keeps. */
typedef struct {
    dl_axis_list by;  /* without axes of size 1 */
    int64_t count;    /* per item; one vector's worth when a vector reduction keeps no axis */
    int64_t at, base; /* offset of the first in an item's doubles, and the byte offset of the first
                         item's in the workspace */
    int64_t items, all; /* items, and doubles per item */
} dl_partial;

/* A value that later loop nests read: its place in the workspace, in elements of its own type. */
typedef struct {
    dl_axis_list by;
    int64_t base;
} dl_kept;

typedef struct dl_emitter {
    dl_buf *out;
    const dl_kernel *k;
    const dl_target *t;
    dl_arena *arena;  /* of this kernel */
    const char *name; /* CPU: of the function being written */
    bool own_phase;   /* the function is a phase by itself */
    dl_lane_mode mode;
    const dl_dialect *dialect;
    int lane_axis; /* the space axis of the vectors; -1: none */
    bool flat; /* all parameters have the full space and are read contiguously; the coordinate is x0
                */
    const dl_step *steps;
    dl_loop_nests nests;
    const dl_loop_nest *now; /* the loop nest being written */
    unsigned per_thread; /* CUDA: reduction axes that each thread loops over itself; a bit each */
    bool fused_part;     /* CUDA: a horizontally fused part of a kernel; `block` counts its CTAs */
    int resident; /* CUDA: minimum CTAs per SM (__launch_bounds__); 0: the compiler's choice */
    const char
        *points; /* C expression of the number of valid lanes where panels are padded; or NULL */
    int64_t prefetch;     /* prefetch distance in floats, for loops with much arithmetic; or 0 */
    dl_partial *partial;  /* by instruction: reductions over all of a loop nest */
    dl_kept *kept;        /* by instruction: values of nests.kept */
    unsigned coordinates; /* axes whose coordinates were written as operands, a bit each */
    dl_arena *texts;      /* CUDA: of the phases' texts */
    const char *structs;  /* CUDA: those that the phase uses, with holes; or NULL */
    int64_t epilogue;     /* CUDA: where the phase's epilogue begins in *out; -1: it has none */
    const char *const *array; /* by instruction: the element that a load, store or read of one value
                                 accesses in place of its parameter's, or that is a contraction's
                                 sum; or NULL; NULL: none */
} dl_emitter;

/* Is a value of this type a float in the program? True for f32, and for types that are rounded
 * to 16 bits. */
static inline bool dl_emit_is_float(dl_dtype d) { return dl_kernel_type(d) == DL_F32; }
/* A rounding from float, or from double if `wide`, to type `d`: the text before and after the
 * value. */
typedef struct {
    const char *open, *close;
} dl_cast;
dl_cast dl_emit_rounding(dl_lane_mode mode, dl_dtype d, bool wide);

/* "float": the C type of an element in memory. */
const char *dl_emit_element_type(dl_dtype d);
/* "((const float *)arg[3])", "p3": a parameter as an array. */
const char *dl_emit_param(const dl_emitter *e, int param);

/* The axes of `order` whose bit is set in `axes`; the same of the whole space, in its order. */
dl_axis_list dl_emit_list_axes(const dl_emitter *e, const dl_axis_list *order, unsigned axes);
dl_axis_list dl_emit_space_axes(const dl_emitter *e, unsigned axes);
/* Can a loop nest's instructions and the values that it reads be written as vectors? */
bool dl_emit_has_lanes(const dl_emitter *e, const dl_loop_nest *s);
/* Can axis `b` and the axis around it, `a`, be collapsed into one loop for all accesses of the
 * present loop nest? Then the coordinate of b counts both, and that of a is 0. */
bool dl_emit_collapses(const dl_emitter *e, int a, int b);
/* Are all lanes of every vector in use? */
bool dl_emit_fills_vectors(const dl_emitter *e);
/* Are all accesses of a loop nest vectors at affine addresses? Other loops gain from an optimising
 * compiler. */
bool dl_emit_is_affine(dl_emitter *e, const dl_loop_nest *s);
/* Is an access in bounds for all lanes of each vector or for none, so that one condition guards it?
 */
bool dl_emit_is_bounded_alike(const dl_emitter *e, const dl_type *t, const dl_index *at);
/* Writes the values that the present loop nest reads of earlier ones, then its instructions, as
 * statements; value i is named v<i>. In scope must be: parameters arg[i]; coordinates x<axis>;
 * `n`, the lanes in use; `acc`, the accumulators of a contraction; `sums`, this item's partial
 * results. */
void dl_emit_run(dl_emitter *e);
void dl_emit_read(dl_emitter *e, int number);
void dl_emit_instr(dl_emitter *e, int number);
/* Writes prefetches of the cache lines that a vector of the present loop nest accesses in arrays
 * that may not be in cache. Returns the bytes of the largest of their elements; 0: there are
 * none. */
int dl_emit_prefetch(dl_emitter *e);
/* Stores a value for later loop nests; one value at a time. */
void dl_emit_keep(dl_emitter *e, int number);
/* "((float *)(workspace + 64L))": the array of such values. */
void dl_emit_kept_place(dl_emitter *e, int number);
/* "x0 * 12 + x3": the linear index of a point over some axes; 0 without axes. */
void dl_emit_linear_index(dl_emitter *e, const dl_axis_list *list);
/* The address of an access to a parameter of this type, in elements: row-major, channels last or
 * panels. */
void dl_emit_address(dl_emitter *e, const dl_type *t, const dl_index *at);
/* The condition that an access is in bounds. False, and nothing is written: it always is. */
bool dl_emit_bounds(dl_emitter *e, const dl_type *t, const dl_index *at);
/* "vec<float, 8>"; "l3.load(p1 + x0 * 8);", or "l3.load_where(x0 < 8, p1 + x0 * 8, 0.0f);", where
 * `to` is "l3"; "l3.store(p1 + x0 * 8);". emit_vector_access.c */
const char *dl_emit_vector_type(const dl_emitter *e, int number, int width);
void dl_emit_load_vector(dl_emitter *e, const char *to, int number);
void dl_emit_store_vector(dl_emitter *e, int number);
/* A literal of an element type; integers are exact (dl_check_constants). */
void dl_emit_constant(dl_emitter *e, dl_dtype d, double v);
/* "float": the C type of a value in the present mode. */
const char *dl_emit_type(const dl_emitter *e, dl_dtype d);
/* A reduction's initial value and, unless it is a sum, its combining function, by the type of
 * its accumulator (dl_emit_partial_type, of one value). */
const char *dl_emit_partial_type(const dl_kinstr *in);
const char *dl_emit_start(const dl_kinstr *in);
const char *dl_emit_combine(const dl_kinstr *in);

/* Do all constants of integer types fit their type? False: refused. */
bool dl_check_constants(const dl_kernel *k, dl_error *err);
/* A comment with the kernel's name and source location. */
void dl_emit_title(const dl_emitter *e, dl_buf *out);
/* Prepares the kernel k for the loop nests of the schedule that it carries: sets e->k (in which
 * earlier stores may be read again), its steps and its loop nests. */
void dl_emit_by_schedule(dl_emitter *e, const dl_kernel *k);
/* Refuses a kernel whose schedule the target does not run, or that has none. Returns false. */
bool dl_emit_refuse_schedule(const dl_kernel *k, dl_error *err);
/* The same for a schedule that names a variant which the target does not have. */
bool dl_emit_refuse_variant(const dl_kernel *k, const dl_target *t, dl_error *err);
/* Refuses contraction `c`, of loop nest e->now, where no hand-written loops can compute it: its
 * types, sizes, layouts, or the reductions next to it. kernels: "the CPU's kernels".
 * check_contraction.c */
bool dl_emit_check_contraction(const dl_emitter *e, const dl_kinstr *c, const char *kernels,
                               dl_error *err);
/* Refuses a template that computes in f32 where another type is among its operands and results, but
 * for scalars in i64. */
bool dl_emit_check_floats(const dl_emitter *e, const char *kernels, dl_error *err);
/* Reserves workspace, after the present size, for values that later loop nests read. */
void dl_emit_find_kept(dl_emitter *e, dl_emitted *code);
/* Can the kernel have another phase? False: refused. */
bool dl_emit_has_phase(const dl_emitter *e, const dl_emitted *code, dl_error *err);
/* Refuses a kernel, at an instruction's location in the model, as "FILE:LINE:COLUMN: error:
 * ...". Returns false. */
bool dl_emit_refuse(const dl_kernel *k, const dl_kinstr *at, dl_error *err, const char *format, ...)
    DL_PRINTF(4, 5);
#endif
