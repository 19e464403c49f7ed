/* Holes: the numbers, names and parameters of an emitted text, marked as the emitter prints them.
 * Two texts that are equal except for their holes can be one function, whose differing numbers
 * are arguments; nothing has to be found in the text for that.
 *
 * A hole stands between dollar signs, which no target's language has:
 *
 *      $12$ $12L$ $1.5f$   a number, as it is spelled in C: its suffix is its type
 *      $/12$               the same as a divisor, of / or %
 *      $:12$               a divisor of an index that one thread of a CTA divides: of any kind
 *      $x3$ $sums7$        a name by number, of a variable: counted anew in the order of the text
 *      $p3$                the kernel's parameter number 3; $&p3$: counted alone at each place
 *      $$                  the function's own name, with which its structs' names begin
 *      $members$           in the struct of a work item: the numbers that structs need
 *      $values$            after its declaration: their values
 *
 * Numbers without marks are part of the text. C++ wants constants as template arguments, sizes of
 * arrays, enumerators and cases; and the compiler's work depends on the bounds of unrolled loops
 * and on subscripts of arrays in registers. */
#ifndef DL_HOLES_H
#define DL_HOLES_H
#include "ir/base/arena.h"
#include "ir/base/str.h"

/* A kernel's parameter: its type, "const float *", and its qualifier, "__restrict__ " or "". */
typedef struct {
    const char *type, *qualifier;
} dl_pointer;

/* A phase of a kernel, or a horizontally fused part of one, as its emitter has written it: texts
 * with holes. As C++ it is its structs, then
 *      extern "C" __global__ void __launch_bounds__(<bounds>) $$_<number>(<maps>T0 *p0, T1 *p1,
 * ..., char *workspace) { then its body. compiler/cuda/merge.c turns it into the plan's form
 * (ir/plan/plan.h). */
typedef struct dl_phase {
    const char *title;           /* the comment before it */
    const char *bounds;          /* of the launch: "256, 2" */
    const char *maps;            /* its parameters that are tensor maps: "KD_MAP(map0), " */
    DL_ARRAY(dl_pointer) params; /* the kernel's parameters */
    const char *structs, *body;
    size_t epilogue; /* where the epilogue after a loop over tiles begins in the body; or its end */
    int cost;        /* of compiling it: a number of functions */
} dl_phase;

/* The use of a number in the text, which determines its form as an argument. */
typedef enum {
    DL_TEMPLATE_INT = 'i',
    DL_TEMPLATE_UNSIGNED = 'u',
    DL_TEMPLATE_LONG = 'l',
    DL_TEMPLATE_UNSIGNED_LONG = 'v',
    DL_TEMPLATE_FLOAT = 'f',  /* its bits */
    DL_TEMPLATE_SHIFT = 's',  /* a divisor that is a power of two; in the template also any divisor
                             of  the CTA's number */
    DL_TEMPLATE_DIVISOR = 'd' /* another divisor */
} dl_template_kind;

typedef struct {
    dl_template_kind kind;
    int64_t value;
    const char *spelled;
} dl_template_parameter;

/* A text whose holes are taken out. In it: DL_HOLE_NUMBER and the kind for a number;
 * DL_HOLE_PARAM and the number for a parameter; the others alone. Names are numbered. */
enum {
    DL_HOLE_NUMBER = '\1',
    DL_HOLE_PARAM = '\2',
    DL_HOLE_OWN = '\3',
    DL_HOLE_MEMBERS = '\4',
    DL_HOLE_VALUES = '\5'
};
#define DL_HOLES "\1\2\3\4\5"

typedef struct {
    const char *text; /* structs, then the function's body */
    size_t structs;   /* bytes */
    DL_ARRAY(dl_template_parameter) parameters;
    int struct_parameters; /* the first ones, which are in structs */
    DL_ARRAY(int) args; /* the kernel's parameters that the text uses, in its order: p0, p1, ... */
    /* where the epilogue begins in a loop over tiles; otherwise the end of the text */
    size_t epilogue_start;
    int epilogue_parameter, epilogue_args;
} dl_template;

/* Takes the holes out of a function's structs and body, whose epilogue begins at `epilogue`. The
 * result lives in the arena. */
dl_template dl_template_of(dl_arena *arena, const dl_phase *p);

/* Appends a text with its holes filled as they stand; `own`: the function's name. */
void dl_fill_holes(dl_buf *out, const char *text, const char *own);
#endif
