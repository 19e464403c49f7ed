/* A kernel's contraction as a GEMM: its modes, the strides of its operands along them, and the
 * stride phases of its windows. CPU and CUDA emitters and library calls share this view; each
 * chooses which operand is the left one, and which axes are lanes, rows or blocks. */
#ifndef DL_GEMM_H
#define DL_GEMM_H
#include "ir/kernel/kernel.h"

/* The axes of the relation that one linear index counts, outermost first. */
typedef struct {
    int n, axis[DL_MAX_RELATION];
    int64_t size; /* the product of their sizes; 1: there is none */
} dl_gemm_mode;

/* A contraction by names. Side 0 is the left operand (M), side 1 the right one (N). */
typedef struct {
    dl_relation r;
    int side[2]; /* places of the left operand and of the right one */
    dl_gemm_mode mode[DL_MODES];
    int64_t stride[2][DL_MAX_RELATION]; /* of each side by axis, in elements; 0 where it does not
                                           have the axis */
} dl_gemm;

/* swap: the second operand is the left one. A mode's axes are in the space's order, or in that of
 * the sums. An axis that neither operand has belongs to the batch. */
dl_gemm dl_gemm_by_names(const dl_kernel *k, const dl_kinstr *contract, bool swap);
/* Moves an axis of a mode to another mode, in the order of axes. */
void dl_gemm_move(dl_gemm *g, int axis, dl_mode_kind from, dl_mode_kind to);
/* Makes an axis of a mode its innermost. */
void dl_gemm_move_inwards(dl_gemm *g, int axis, dl_mode_kind of);
/* The stride of a side over a mode's linear index, as dl_linear_stride. */
int64_t dl_gemm_stride(const dl_gemm *g, int side, dl_mode_kind mode);
/* The distance of an array's elements over the linear index of `n` coordinates, outermost first,
 * that have these sizes and strides; 0: there is but one element. -1: it is not constant, or
 * negative. */
int64_t dl_linear_stride(int n, const int64_t *size, const int64_t *step);

/* The axis, in a tensor of a contraction by windows, of spatial axis `i` of three; -1: the tensor
 * does not have it. Spatial axis dl_conv_spatial(w, axis) is axis `axis` >= 2 of a tensor. */
int dl_conv_axis(const dl_windows *w, int i);
int dl_conv_spatial(const dl_windows *w, int axis);

/* A stride phase of x along one axis: positions shift + stride * j, j < count, have the taps first
 * + step * i, i < taps, which read y at base + j - i * fall. */
typedef struct {
    int64_t count, shift, first, step, taps, base, fall;
} dl_stride_phase;
dl_stride_phase dl_conv_stride_phase(const dl_conv_sizes *s, int axis, int64_t q);
/* Number q of all stride phases: one along each of the three axes. */
void dl_conv_stride_phases(const dl_conv_sizes *s, int64_t q, dl_stride_phase p[3]);
#endif
