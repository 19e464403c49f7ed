/* The normalisation of a run's data as part of the network: raw numbers in, physical numbers
 * out. */
#ifndef DL_ONNX_STATISTICS_H
#define DL_ONNX_STATISTICS_H
#include "exports/onnx/axes.h"
#include "runtime/setup/data_record.h"

/* The element type of an input as users give it: f32 for 16-bit inputs with statistics. */
dl_dtype dl_onnx_raw_dtype(dl_dtype dtype, const dl_array_record *r);
/* Raw numbers as the model takes them: (x - mean) / deviation, and the record's number in place of
 * values that are not finite. `r` NULL: as they are. */
dl_onnx_value dl_onnx_normalise(dl_onnx *o, dl_onnx_value x, const dl_array_record *r, dl_dtype to);
/* An output in the units of its target: y * deviation + mean. */
dl_onnx_value dl_onnx_undo(dl_onnx *o, dl_onnx_value y, const dl_array_record *r);
#endif
