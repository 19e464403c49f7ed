/* The text of one phase of a kernel without what tells it from its equals: its names renumbered in
 * the order in which they appear, and its numbers taken out, but for those that the text's
 * structure hangs on. */
#ifndef DL_SKELETON_H
#define DL_SKELETON_H
#include "ir/base/arena.h"
#include "ir/base/str.h"

/* What a number is in the text, which says how it can come as an argument. */
typedef enum {
    DL_HOLE_INT = 'i',
    DL_HOLE_UNSIGNED = 'u',
    DL_HOLE_LONG = 'l',
    DL_HOLE_UNSIGNED_LONG = 'v',
    DL_HOLE_FLOAT = 'f',  /* its bits */
    DL_HOLE_SHIFT = 's',  /* a divisor, a power of two; in the text also any of a block's number */
    DL_HOLE_DIVISOR = 'd' /* another divisor */
} dl_hole_kind;

typedef struct {
    dl_hole_kind kind;
    int64_t value;
    const char *spelled;
} dl_hole;

/* In the text: a number, its kind behind it; a parameter, its number behind it; the kernel's name.
 */
enum { DL_HOLE = '\1', DL_PARAM = '\2', DL_OWN = '@' };

typedef struct {
    const char *text; /* structs, then the function's body, from behind its "{" on */
    size_t structs;   /* bytes */
    DL_ARRAY(dl_hole) holes;
    int struct_holes;   /* those in structs, the first ones */
    DL_ARRAY(int) args; /* the kernel's parameters that the text names, in its order: p0, p1, ... */
    /* Of a loop over tiles: what stands in front of the contraction's end begins here; else all
     * does. */
    size_t cut;
    int cut_holes, cut_args;
} dl_skeleton;

/* `name`: the kernel's, with which names of its structs begin. All lives in the arena. */
dl_skeleton dl_skeleton_of(dl_arena *arena, const char *name, const char *structs, size_t nstructs,
                           const char *body, size_t nbody);
#endif
