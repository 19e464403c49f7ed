/* The messages of ONNX's format as they are written: element types, attributes. */
#ifndef DL_ONNX_PROTO_H
#define DL_ONNX_PROTO_H
#include "ir/type.h"
#include "runtime/formats/onnx_fields.h"
#include "runtime/formats/protobuf.h"

enum { DL_ONNX_OPSET = 17, DL_ONNX_IR = 8 };

/* ONNX's number of an element type. */
int dl_onnx_dtype(dl_dtype dtype);

/* Append an attribute to the fields of a NodeProto. */
void dl_onnx_put_int(dl_buf *node, const char *name, int64_t value);
void dl_onnx_put_ints(dl_buf *node, const char *name, int n, const int64_t *values);
void dl_onnx_put_float(dl_buf *node, const char *name, double value);
void dl_onnx_put_text(dl_buf *node, const char *name, const char *value);
/* The fields of a GraphProto; freed. */
void dl_onnx_put_graph(dl_buf *node, const char *name, dl_buf *graph);
/* A list of one text. */
void dl_onnx_put_texts(dl_buf *node, const char *name, const char *value);
#endif
