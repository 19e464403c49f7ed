/* `dlc export --as=onnx`: one file of ONNX, opset 17, with the weights inside.
 *
 * Inputs, outputs and parameters keep their names. The batch axis is symbolic ("N") where the
 * graph has the same nodes for every batch; else the session's batch is fixed, with a warning. */
#ifndef DL_ONNX_H
#define DL_ONNX_H
#include "exports/export.h"

extern const dl_export_format dl_export_onnx;
#endif
