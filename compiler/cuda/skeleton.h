/* A phase's text as a template: names are renumbered in the order in which they appear, and
 * numbers become parameters, unless the text's structure depends on them. Two phases with equal
 * templates can share a function. */
#ifndef DL_SKELETON_H
#define DL_SKELETON_H
#include "ir/base/arena.h"
#include "ir/base/str.h"

/* The use of a number in the text, which determines its form as an argument. */
typedef enum {
    DL_HOLE_INT = 'i',
    DL_HOLE_UNSIGNED = 'u',
    DL_HOLE_LONG = 'l',
    DL_HOLE_UNSIGNED_LONG = 'v',
    DL_HOLE_FLOAT = 'f',  /* its bits */
    DL_HOLE_SHIFT = 's',  /* a divisor that is a power of two; in the template also any divisor of
                             the CTA's number */
    DL_HOLE_DIVISOR = 'd' /* another divisor */
} dl_hole_kind;

typedef struct {
    dl_hole_kind kind;
    int64_t value;
    const char *spelled;
} dl_hole;

/* Marks in the text: a number, followed by its kind; a parameter, followed by its index; the
 * kernel's name. */
enum { DL_HOLE = '\1', DL_PARAM = '\2', DL_OWN = '@' };

typedef struct {
    const char *text; /* structs, then the function's body, from after its "{" on */
    size_t structs;   /* bytes */
    DL_ARRAY(dl_hole) holes;
    int struct_holes;   /* the first ones, which are in structs */
    DL_ARRAY(int) args; /* the kernel's parameters that the text uses, in its order: p0, p1, ... */
    /* where the epilogue begins in a loop over tiles; otherwise the end of the text */
    size_t cut;
    int cut_holes, cut_args;
} dl_skeleton;

/* `name`: the kernel's, a prefix of its structs' names. The result lives in the arena. */
dl_skeleton dl_skeleton_of(dl_arena *arena, const char *name, const char *structs, size_t nstructs,
                           const char *body, size_t nbody);
#endif
