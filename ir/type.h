/* Tensor types: an element type, named axes with sizes, and the layout of the elements in memory.
 *
 * Axes are matched by name. An axis name is interned (compare with ==). "" is an axis without a
 * name, which must have size 1 and takes no part in broadcasting. Sizes are always known; size 0
 * is legal. */
#ifndef DL_TYPE_H
#define DL_TYPE_H
#include "ir/base/arena.h"
#include "ir/base/str.h"

/* X(id, text, bytes) */
#define DL_DTYPES(X)                                                                               \
    X(F32, "f32", 4)                                                                               \
    X(F64, "f64", 8)                                                                               \
    X(F16, "f16", 2) X(BF16, "bf16", 2) X(I32, "i32", 4) X(I64, "i64", 8) X(BOOL, "bool", 1)

typedef enum {
#define X(id, text, bytes) DL_##id,
    DL_DTYPES(X)
#undef X
        DL_NDTYPES
} dl_dtype;

enum {
    DL_MAX_RANK = 8,
    DL_MAX_ATOMS = 2 * DL_MAX_RANK, /* names on a side of a pattern of rearrange */
    DL_MAX_PANEL = 1024             /* lanes of a panel */
};

typedef struct {
    const char *name; /* interned */
    int64_t size;
} dl_axis;

/* The layout of a tensor's elements in memory. It does not change the logical shape.
 *
 *   ROW    the axes in order, the last fastest: PyTorch's contiguous layout; the layout at every
 *          edge of the plan
 *   CL     channels last: axis 1 moved after all others (N, spatial..., C), for activations inside
 *          a plan. Of a scan's tensors of all steps [T, N, C, ...] the slices lie so: the leading
 *          axes are the steps of so many scans within each other
 *   PANEL  a convolution weight [O, C, k...] as [ceil(O/width)][taps][C][width], zero-filled after
 *          O: each (block, tap) is a dense C x width panel, the B operand of the register tile */
typedef enum { DL_ROW, DL_CL, DL_PANEL } dl_layout_kind;
typedef struct {
    dl_layout_kind kind;
    int width; /* PANEL: lanes of a panel */
    int steps; /* CL: leading axes before those of a slice */
} dl_layout;
/* CL: the axis that lies after all others. */
static inline int dl_layout_channels(dl_layout l) { return l.steps + 1; }
/* The number of elements along the first axis that are contiguous. */
static inline int dl_layout_lanes(dl_layout l) { return l.kind == DL_PANEL ? l.width : 1; }

typedef struct {
    dl_dtype dtype;
    int rank;
    dl_axis axis[DL_MAX_RANK];
    dl_layout layout;
} dl_type;

const char *dl_dtype_name(dl_dtype d);
int dl_dtype_bytes(dl_dtype d);
/* False when no element type has this name. */
bool dl_dtype_parse(const char *name, dl_dtype *out);
static inline bool dl_dtype_is_float(dl_dtype d) { return d <= DL_BF16; }
static inline bool dl_dtype_is_half(dl_dtype d) { return d == DL_F16 || d == DL_BF16; }

/* A scalar type (rank 0). */
dl_type dl_scalar(dl_dtype d);
/* Appends an axis; the name is interned here. */
void dl_type_push(dl_type *t, const char *name, int64_t size);
/* Index of the axis named `name` (interned), or -1. */
int dl_type_axis(const dl_type *t, const char *name);
/* Whether the first axis is that of the samples, N. */
bool dl_type_has_samples(const dl_type *t);
/* The row-major type [N, ...] of one sample: with N=1 in front where the type has no samples, which
 * then has fewer than DL_MAX_RANK axes. */
dl_type dl_type_of_samples(const dl_type *t);
/* The axis by which the statistics of data are given: C, or else the first one that is not the
 * samples'; -1: it has none. */
int dl_type_channel_axis(const dl_type *t);
/* A name derived from this one that none of the type's axes has; interned. */
const char *dl_type_fresh(const dl_type *t, const char *name);
/* Number of logical elements (1 for a scalar). */
int64_t dl_type_count(const dl_type *t);
/* Number of elements in memory, layout padding included, and their bytes. */
int64_t dl_type_stored(const dl_type *t);
int64_t dl_type_bytes(const dl_type *t);
/* Same element type, axis names and sizes; layouts compared by the second. */
bool dl_type_same(const dl_type *a, const dl_type *b);
bool dl_layout_same(dl_layout a, dl_layout b);
/* Strides in elements, by logical axis, for ROW and CL. */
void dl_type_strides(const dl_type *t, int64_t stride[DL_MAX_RANK]);
/* A tensor's elements around an axis, in row-major order: [outer][size][inner]. */
typedef struct {
    int64_t outer, size, inner;
} dl_around;
dl_around dl_type_around(const dl_type *t, int axis);
/* Position in memory (in elements) of logical index `at`, for every layout. */
int64_t dl_type_offset(const dl_type *t, const int64_t at[DL_MAX_RANK]);

/* The same in memory order; around a first axis in panels, where it fills them. */
dl_around dl_type_laid_around(const dl_type *t, int axis);
/* Is each rank's share along the axis contiguous in such blocks: does none end within a panel? */
bool dl_type_shares(const dl_type *t, int axis, int64_t ranks);

/* "f32[N=2, C=64, D=32]", followed by " @cl" or " @panel32" where the layout is not ROW. */
void dl_type_print(dl_buf *out, const dl_type *t);
/* The same in a static thread-local buffer, for messages; valid until the fourth call after it. */
const char *dl_type_text(const dl_type *t);
#endif
