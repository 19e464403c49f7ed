/* ONNX files (.onnx) of opset 13 and newer, from any exporter; those of PyTorch keep names.
 *
 * A message of protobuf with the graph and the weights, which may also lie in other files of its
 * folder. Nothing in it is run. Specification: onnx.proto and Operators.md of ONNX. */
#ifndef DL_IMPORTS_ONNX_H
#define DL_IMPORTS_ONNX_H
#include "imports/graph/foreign.h"

typedef struct dl_onnx_file dl_onnx_file;

/* Opens a file and reads its graph in terms of PyTorch's ops; NULL with an error. sizes:
 * "height=224,width=224" for sizes other than the batch's that the file leaves open, or NULL.
 * Errors, each with the file's name and the place in it: DL_IO; DL_USAGE for sizes; DL_INPUT for
 * what is damaged, cyclic, too large, of another version, or in a file outside of the folder. */
dl_onnx_file *dl_onnx_open(dl_arena *arena, const char *path, const char *sizes, dl_error *err);
const dl_foreign_graph *dl_onnx_graph(const dl_onnx_file *file);
void dl_onnx_close(dl_onnx_file *file); /* NULL is fine */
#endif
