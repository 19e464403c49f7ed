/* A contraction as data: result[...] += first[...] * second[...], over axes that have roles.
 *
 * By names (op contract): every axis is an axis of the operands and the result, matched by name.
 * By windows: three tensors share one relation, and an op is the derivative of <y, conv(x, w)> by
 * one of them:
 *
 *    x [N, C, in...]   w [O, C / groups, taps...]   y [N, O, out...]
 *    in = out * stride + tap * dilation - pad_lo
 *
 * along each spatial axis, where that is inside x. With groups, C is (group, C of one group) and O
 * is (group, O of one group). The column `expr` of ops.def says which tensor is at which place. A
 * transposed convolution is the op whose result is x.
 *
 * Shape rules, gradients, fusion, layouts, FLOPs, interpreter, validation and emitters use this
 * header, and do not compare ops with names. */
#ifndef DL_RELATION_H
#define DL_RELATION_H
#include "ir/graph.h"

/* Places of tensors: 0 and 1 are the operands. */
enum { DL_RESULT_PLACE = 2, DL_PLACES = 3 };
typedef enum { DL_TENSOR_NONE, DL_TENSOR_X, DL_TENSOR_W, DL_TENSOR_Y, DL_NTENSORS } dl_tensor;

/* Does the op relate its tensors by windows? */
bool dl_op_slides(dl_op op);
/* The tensor at a place; DL_TENSOR_NONE for an op without windows. */
dl_tensor dl_op_tensor(dl_op op, int place);
/* Is the result a weight's gradient? */
bool dl_op_makes_weight(dl_op op);
/* The place of a tensor, or -1 for an op without windows. */
int dl_op_place(dl_op op, dl_tensor tensor);
/* The op by windows whose result is that tensor. */
dl_op dl_op_making(dl_tensor tensor);

/* The windows' geometry, from the node's attributes. */
typedef struct {
    int n; /* spatial axes, 1 to 3; 0: no windows */
    int64_t stride[3], dilation[3], pad_lo[3], pad_hi[3], groups;
    bool ceil; /* a window that ends after the padding counts, too, if it begins before the end of x
                */
} dl_windows;
dl_windows dl_node_windows(const dl_node *n);
/* The number of windows of `taps` that fit along the i-th spatial axis of x, `size` long; 0 where
 * none fits, or where it cannot be computed without overflow. */
int64_t dl_windows_count(const dl_windows *w, int i, int64_t size, int64_t taps);

/* The GEMM mode of an axis, by the tensors that have it: BATCH: both operands and the result; M:
 * first operand and result; N: second operand and result; K, which is summed over: both operands,
 * or one alone. */
typedef enum { DL_MODE_BATCH, DL_MODE_M, DL_MODE_N, DL_MODE_K, DL_MODES } dl_mode_kind;

enum { DL_MAX_RELATION = 2 * DL_MAX_RANK };
typedef struct {
    const char *name;
    int64_t size;
    dl_mode_kind role;
    bool slides;       /* one of a window's three axes */
    int at[DL_PLACES]; /* the axis of each tensor that it is, -1: none. Several may be parts of one
                          axis: the outer first */
} dl_relation_axis;

/* Indices of axes. Two of the three are free, and determine the third. */
typedef struct {
    int out, tap, in;
    int64_t stride, dilation, pad, pad_hi;
} dl_relation_window;

typedef struct {
    int n, nwindows; /* windows: none or three, the last one innermost; missing ones have sizes 1
                        and come first */
    dl_relation_axis axis[DL_MAX_RELATION];
    dl_relation_window window[3];
} dl_relation;

/* The relation between three tensors of an op by windows; sizes are x's, w's taps and y's. */
dl_relation dl_relation_of_windows(dl_op op, const dl_type *const type[DL_PLACES],
                                   const dl_windows *w);
/* By names: the axes of a space (the result's), then those summed over. Axis k of operand `side`
 * is space axis follow[side][k], or sum[follow[side][k] - DL_MAX_RANK]. */
dl_relation dl_relation_of_names(int nspace, const dl_axis *space, int nsums, const dl_axis *sum,
                                 const int rank[2], const int *const follow[2]);
/* The relation of a node of class CONTRACT. By names: the result's axes in order, then the K
 * axes. */
dl_relation dl_relation_of(const dl_node *n);

/* The product of the sizes of a role's axes, without windows' axes. */
int64_t dl_relation_size(const dl_relation *r, dl_mode_kind role);
/* The sizes of a relation by windows. Missing spatial axes come first, with size 1. */
typedef struct {
    int64_t samples, groups, c, o; /* c and o: channels of one group in x and in y */
    int64_t in[3], tap[3], out[3]; /* of x, w and y */
    int64_t stride[3], dilation[3], pad_lo[3], pad_hi[3];
} dl_conv_sizes;
dl_conv_sizes dl_relation_sizes(const dl_relation *r);
/* The number of products that each element of the result sums (padding and every tap included),
 * and the number of all products. The largest count where it overflows. */
int64_t dl_relation_k_extent(const dl_relation *r);
int64_t dl_relation_products(const dl_relation *r);
#endif
