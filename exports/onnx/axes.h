/* Named axes in ONNX, where axes have positions alone: transposes, sizes, shapes. */
#ifndef DL_ONNX_AXES_H
#define DL_ONNX_AXES_H
#include "exports/onnx/model.h"

/* The value with its axes in another order: axis i is its axis order[i]. */
dl_onnx_value dl_onnx_permute(dl_onnx *o, dl_onnx_value v, const int *order);
/* Without the axes whose bits are set, which have size 1; with an axis of size 1 at each position
 * whose bit is set. */
dl_onnx_value dl_onnx_squeeze(dl_onnx *o, dl_onnx_value v, unsigned axes);
dl_onnx_value dl_onnx_unsqueeze(dl_onnx *o, dl_onnx_value v, unsigned axes);
/* The value such that ONNX broadcasts it to `like`'s axes, which include all of its named ones. */
dl_onnx_value dl_onnx_align(dl_onnx *o, dl_onnx_value v, const dl_onnx_value *like);
/* The value with exactly `like`'s axes and sizes. */
dl_onnx_value dl_onnx_expand(dl_onnx *o, dl_onnx_value v, const dl_onnx_value *like);
/* The same elements in the same order with `like`'s axes. */
dl_onnx_value dl_onnx_reshape(dl_onnx *o, dl_onnx_value v, const dl_onnx_value *like);
/* Appends an axis to a description. */
void dl_onnx_push(dl_onnx_value *v, const char *name, int64_t size, int64_t per);
/* Appends a copy of another's axis. */
void dl_onnx_push_axis(dl_onnx_value *v, const dl_onnx_value *of, int axis);
#endif
