/* Affine indices: a sum of scaled coordinates, divided, is the index of an element along an axis.
 * A rule (`dl_outside`) gives the value where the axis has no such element. Kernels load at such
 * indices (kernel.h). The op `affine` is the view that has them: windows of pooling, strides,
 * shifts, mirrors, enlargements. */
#ifndef DL_AFFINE_H
#define DL_AFFINE_H
#include <stdint.h>

typedef enum {
    DL_OUT_ZERO,    /* 0 */
    DL_OUT_LOWEST,  /* minus infinity */
    DL_OUT_NAN,     /* no number */
    DL_OUT_EXACT,   /* 0, and 0 where the division leaves a remainder */
    DL_OUT_EDGE,    /* the nearest element */
    DL_OUT_WRAP,    /* the axis wraps around: -1 is its last element */
    DL_OUT_REFLECT, /* mirrored at the first and the last element: -1 is element 1 */
    DL_OUT_ANY,     /* never read; exists only while kernels are made */
    DL_NOUTSIDES
} dl_outside;

/* The names of the rules in texts; DL_OUT_ANY has none. */
extern const char *const dl_outside_names[DL_NOUTSIDES];
/* The rule of this name, or -1. */
int dl_outside_find(const char *name);
/* Does the rule give a value? Other rules give the index of another element. */
static inline int dl_outside_fills(dl_outside o) { return o <= DL_OUT_EXACT || o == DL_OUT_ANY; }

/* The largest integer that is not above a / b; b > 0. */
int64_t dl_floor_div(int64_t a, int64_t b);
/* The element of an axis of `size` at `sum` divided by `div` (0 as 1); -1 where there is none,
 * which happens only under rules that fill. */
int64_t dl_affine_place(int64_t sum, int64_t div, dl_outside outside, int64_t size);
/* The value where there is no element, of a rule that fills. */
double dl_outside_value(dl_outside o);
#endif
