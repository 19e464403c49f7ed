/* The ONNX form of each op: an emitter, one function for each row of the table in ops.c.
 *
 * An emitter appends ONNX nodes for one node of the graph. Its operands already have their ONNX
 * values; the emitter sets the value of the result (dl_onnx_set). Returns false where the node has
 * no form that is valid for every batch (dl_onnx_needs_batch). */
#ifndef DL_ONNX_OPS_H
#define DL_ONNX_OPS_H
#include "exports/onnx/axes.h"

/* `word`: the op of ONNX that the table names, where it names one. */
typedef bool dl_onnx_emitter(dl_onnx *o, const dl_node *n, const char *word);

/* Emits a node. False: DL_INPUT for an op without a row, by name and line; or it needs a fixed
 * batch. */
bool dl_onnx_emit(dl_onnx *o, const dl_node *n);

/* Has the op a row? */
bool dl_onnx_has(dl_op op);

/* elem.c */
dl_onnx_emitter dl_onnx_same, dl_onnx_one, dl_onnx_several, dl_onnx_select, dl_onnx_floor,
    dl_onnx_rsqrt, dl_onnx_atan2, dl_onnx_expm1, dl_onnx_log1p, dl_onnx_relu, dl_onnx_leaky_relu,
    dl_onnx_elu, dl_onnx_compare, dl_onnx_to, dl_onnx_softplus, dl_onnx_clamp;
/* move.c */
dl_onnx_emitter dl_onnx_const, dl_onnx_iota, dl_onnx_broadcast, dl_onnx_slice, dl_onnx_pad,
    dl_onnx_cat, dl_onnx_drop, dl_onnx_insert, dl_onnx_refit;
/* index.c */
dl_onnx_emitter dl_onnx_affine, dl_onnx_gather, dl_onnx_scatter_add, dl_onnx_scatter_max;
/* reduce.c */
dl_onnx_emitter dl_onnx_reduce, dl_onnx_argmax, dl_onnx_argsort, dl_onnx_along;
/* contract.c */
dl_onnx_emitter dl_onnx_contract, dl_onnx_complex_contract;
/* attention.c */
dl_onnx_emitter dl_onnx_attention;
/* fourier.c */
dl_onnx_emitter dl_onnx_fourier;
/* windows.c */
dl_onnx_emitter dl_onnx_conv, dl_onnx_conv_transpose, dl_onnx_pool, dl_onnx_adaptive_pool,
    dl_onnx_upsample;
/* norm.c */
dl_onnx_emitter dl_onnx_layer_norm, dl_onnx_batch_norm, dl_onnx_group_norm;
/* recurrence.c */
dl_onnx_emitter dl_onnx_recurrence;
/* scan.c */
dl_onnx_emitter dl_onnx_scan;
/* steps.c */
dl_onnx_emitter dl_onnx_steps;
/* A reduction of x over the axes of these indices; `keep`: they stay, with size 1. reduce.c */
const char *dl_onnx_reduced(dl_onnx *o, const char *word, const char *x, int n, const int64_t *axes,
                            bool keep);
#endif
