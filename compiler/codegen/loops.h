/* Loop IR: the loops around a kernel's scalar program, as a tree of statements over typed
 * expressions. A builder is one function for every target; a dialect (emit_program.h) is the table
 * with which loops_expr.c and loops_print.c write the tree as C for the CPU or as CUDA C++. The
 * program itself enters as kernel IR: a statement that runs instruction i, an expression that is
 * its value.
 *
 * A number is a hole, in which equal functions may differ (holes.h), or a fixed part of the text;
 * operations on fixed numbers are done when they are built, and x * 1, x + 0, x / 1, x % 1 with a
 * fixed number are gone. A name or coordinate that nothing uses is not printed, and a coordinate
 * that no statement gives is 0. docs/internals/loop-ir.md has the whole of it. */
#ifndef DL_LOOPS_H
#define DL_LOOPS_H
#include "compiler/codegen/emit_program.h"

/* The layout of the threads that share a work item. */
typedef struct {
    int lanes, groups; /* lanes of a group, groups; powers of two whose product is the CTA */
    bool strided;      /* consecutive threads are in different groups */
    bool unrolled;     /* reductions over lanes are: their number is part of the text */
} dl_thread_layout;

/* Vector accesses: points that are contiguous in memory along an axis, so that a thread loads and
 * stores them together. */
typedef struct {
    int width;       /* vector width in points; 1: scalar */
    bool other_axis; /* consecutive threads are along another axis, the last one */
    int axis;        /* the axis of the vector */
    bool *has; /* by instruction: it is a vector load or store, or a vector read of a kept value */
    bool *invariant;          /* loop-invariant: loaded once, before the loop */
    const char *const *array; /* by instruction: the point's element; for dl_emitter.array */
    int prefetch; /* prefetch distance: rows whose vectors are loaded together, ahead of a loop over
                  them; or 0 */
} dl_vectors;

/* The type of an expression, or of an array's elements. */
typedef enum {
    DL_LOOP_INDEX, /* coordinates and counts: the dialect's type of an index */
    DL_LOOP_BOOL,
    DL_LOOP_INT,
    DL_LOOP_LONG,
    DL_LOOP_FLOAT, /* also of 16-bit values: dl_kernel_type */
    DL_LOOP_DOUBLE,
    DL_LOOP_LANES, /* a float of each lane */
    DL_LOOP_INT_LANES,
    DL_LOOP_BOOL_LANES,
    DL_LOOP_SUMS, /* a double of each lane, which sums */
} dl_loop_type;
/* Where a variable lies. */
typedef enum {
    DL_IN_THREAD, /* a thread's own: registers */
    DL_IN_SHARED, /* one for all threads of a work item */
} dl_loop_space;
/* The type of an element type's values in a mode, and of a reduction's partial results. */
dl_loop_type dl_loop_type_of(dl_lane_mode mode, dl_dtype d);
dl_loop_type dl_loop_partial_type(const dl_kinstr *in);

/* An expression; a name is one, too. It lives as long as the emitter's arena. */
typedef const struct dl_loop_expr *dl_expr;
struct dl_loop_stmt;
/* A tree that is being built. Statements are appended to the innermost loop or condition that is
 * open. */
typedef struct {
    dl_emitter *e;
    struct dl_loop_stmt *open;         /* the loop or condition; the root */
    const struct dl_loop_stmt **where; /* by instruction: the one in which it has been written */
} dl_loops;
dl_loops dl_loop_begin(dl_emitter *e);
/* Prints the tree to e->out. All that was opened must be closed. */
void dl_loop_print(dl_loops *l);
/* The same as a part of a text, which has the coordinates. */
void dl_loop_print_part(dl_loops *l);
/* "float": the dialect's type. */
const char *dl_loop_type_name(const dl_emitter *e, dl_loop_type type);

/* ---- expressions ---- */

/* A hole; a fixed number. */
dl_expr dl_loop_number(dl_loops *l, int64_t v);
dl_expr dl_loop_fixed(dl_loops *l, int64_t v);
/* a op b: + - * / %, < and = (equal) of numbers, & (and) of bools, m (the smaller one). Quotients
 * are of numbers that are not negative. */
dl_expr dl_loop_op(dl_loops *l, dl_expr a, char op, dl_expr b);
dl_expr dl_loop_by(dl_loops *l, dl_expr a, char op, int64_t b); /* the same with a number */
dl_expr dl_loop_select(dl_loops *l, dl_expr test, dl_expr a, dl_expr b);
dl_expr dl_loop_convert(dl_loops *l, dl_loop_type type, dl_expr a);
/* The work item's index; the thread's within the work item, where a dialect has several. */
dl_expr dl_loop_item(dl_loops *l);
dl_expr dl_loop_thread(dl_loops *l);
/* The value of an instruction that has been written. */
dl_expr dl_loop_value(dl_loops *l, int number);
/* An array in the kernel's workspace, or in a work item's own memory, from this byte on; an array's
 * element. */
dl_expr dl_loop_workspace(dl_loops *l, dl_loop_type type, int64_t byte);
dl_expr dl_loop_memory(dl_loops *l, dl_loop_type type, int64_t byte);
dl_expr dl_loop_at(dl_loops *l, dl_expr array, dl_expr place);
dl_expr dl_loop_from(dl_loops *l, dl_expr array, dl_expr place); /* the array from there on */
/* The variable itself, or an array's element. */
dl_expr dl_loop_slot(dl_loops *l, dl_expr variable, dl_expr place);
/* A variable, or an array, of the text around a part. */
dl_expr dl_loop_name(dl_loops *l, dl_loop_type type, bool array, const char *name);
dl_loop_type dl_loop_expr_type(dl_expr a);
/* Is an access in bounds? */
dl_expr dl_loop_inside(dl_loops *l, const dl_kinstr *in);
/* The linear index of the point over some axes. */
dl_expr dl_loop_linear(dl_loops *l, const dl_axis_list *list);
/* A reduction's initial value; two results as one; one of all lanes of a group, which every
 * lane has afterwards. */
dl_expr dl_loop_start(dl_loops *l, const dl_kinstr *in);
dl_expr dl_loop_combine(dl_loops *l, const dl_kinstr *in, dl_expr a, dl_expr b);
dl_expr dl_loop_reduce(dl_loops *l, const dl_kinstr *in, dl_expr a, const dl_thread_layout *t);
/* A function of the dialect's library with up to four arguments. */
dl_expr dl_loop_call(dl_loops *l, dl_loop_type type, const char *name, int n, const dl_expr *args);

/* ---- statements ---- */

dl_expr dl_loop_let(dl_loops *l, const char *name, dl_expr value);
/* A variable with an initial value; an array, whose elements have it; NULL: they have none. */
dl_expr dl_loop_var(dl_loops *l, dl_loop_type type, const char *name, dl_expr start);
dl_expr dl_loop_array(dl_loops *l, dl_loop_type type, dl_loop_space space, const char *name,
                      int count, dl_expr start);
/* A thread's own for each of n points: a variable, or an array of them. */
dl_expr dl_loop_vars(dl_loops *l, dl_loop_type type, const char *name, int n, dl_expr start);
void dl_loop_set(dl_loops *l, dl_expr target, dl_expr value);
void dl_loop_do(dl_loops *l, dl_expr call); /* a function without a value */
/* Takes the value of a reduction's operand into a variable; test: if this holds, or NULL. */
void dl_loop_grow(dl_loops *l, int number, dl_expr target, dl_expr test);
/* Opens a loop from `from` to before `to`, by `step`; NULL: 1. unroll: how often its body is
 * written; 0: the compiler's choice; DL_UNROLLED: for every turn. */
enum { DL_UNROLLED = -1 };
dl_expr dl_loop_for(dl_loops *l, const char *name, dl_expr from, dl_expr to, dl_expr step,
                    int unroll);
/* The same over an axis of the space, or several that are collapsed, of `size` points. */
void dl_loop_axis(dl_loops *l, int axis, int64_t size, int unroll);
void dl_loop_if(dl_loops *l, dl_expr test);
void dl_loop_block(dl_loops *l); /* names of its own */
void dl_loop_end(dl_loops *l);   /* closes the innermost one */
/* All threads of the work item wait for each other. */
void dl_loop_barrier(dl_loops *l);
/* Opens a loop from `from` to before `to` over an axis (-1: none), in the emitter's present mode.
 * In the mode DL_LANES it is vectorised: whole vectors, then one whose first lanes are in use,
 * unless vectors are always full. */
void dl_loop_lanes(dl_loops *l, int axis, dl_expr from, dl_expr to, bool full);
/* The coordinates along some axes, from the linear index of a point; axes that all accesses of the
 * present loop nest have collapsed are one (dl_emit_collapses); of a vector's first point, from
 * the index of the vector. */
void dl_loop_coordinates(dl_loops *l, dl_expr number, const dl_axis_list *list);
void dl_loop_collapsed(dl_loops *l, dl_expr number, const dl_axis_list *list, const dl_vectors *v);
/* dl_loop_collapsed as statements of a text, "const long x2 = row / 4L % 3L;", of `number`. */
void dl_loop_put_coordinates(dl_emitter *e, const char *number, const dl_axis_list *list);
/* Vector accesses by instruction. A load is of the first point here, or one that has been
 * prefetched. dl_loop_points opens a loop over a vector's points and returns their number in it:
 * each runs the instructions of one point, which access elements of the vectors. */
void dl_loop_load_vector(dl_loops *l, const dl_vectors *v, int number, bool prefetched);
void dl_loop_store_vector(dl_loops *l, int number);
dl_expr dl_loop_points(dl_loops *l, const dl_vectors *v);
/* "lane" and "group" of the thread; one lane and one group where a work item has one thread. */
void dl_loop_threads(dl_loops *l, const dl_thread_layout *t, dl_expr *lane, dl_expr *group);
/* Runs an instruction; those that an instruction needs, where they have not been written yet. */
void dl_loop_instr(dl_loops *l, int number);
void dl_loop_needs(dl_loops *l, int number);
/* It may be that nothing uses the value; a C compiler is to be silent about that. */
void dl_loop_spare(dl_loops *l, int number);
bool dl_loop_has(const dl_loops *l, int number); /* has its value been written here? */
/* The value of an instruction is this one, which is rounded to its type; or one of its type. */
void dl_loop_define(dl_loops *l, int number, dl_expr value);
void dl_loop_give(dl_loops *l, int number, dl_expr value);
/* A value of one point in all lanes: `value`, a name for it around the loop over lanes. */
void dl_loop_splat(dl_loops *l, int number, dl_expr value);
/* Reads a value that an earlier loop nest has kept; keeps one for later loop nests. */
void dl_loop_read(dl_loops *l, int number);
void dl_loop_keep(dl_loops *l, int number);
#endif
