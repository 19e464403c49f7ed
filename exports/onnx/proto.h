/* The messages of ONNX's format (onnx.proto): field numbers, element types, attributes. */
#ifndef DL_ONNX_PROTO_H
#define DL_ONNX_PROTO_H
#include "ir/type.h"
#include "runtime/formats/protobuf.h"

enum { DL_ONNX_OPSET = 17, DL_ONNX_IR = 8 };

enum { /* ModelProto, OperatorSetIdProto */
       DL_MODEL_IR = 1,
       DL_MODEL_PRODUCER = 2,
       DL_MODEL_PRODUCER_VERSION = 3,
       DL_MODEL_GRAPH = 7,
       DL_MODEL_OPSET = 8,
       DL_OPSET_VERSION = 2
};
enum { /* GraphProto */
       DL_GRAPH_NODE = 1,
       DL_GRAPH_NAME = 2,
       DL_GRAPH_INITIALIZER = 5,
       DL_GRAPH_INPUT = 11,
       DL_GRAPH_OUTPUT = 12,
       DL_GRAPH_INFO = 13
};
enum { /* NodeProto */
       DL_NODE_INPUT = 1,
       DL_NODE_OUTPUT = 2,
       DL_NODE_NAME = 3,
       DL_NODE_OP = 4,
       DL_NODE_ATTRIBUTE = 5,
       DL_NODE_DOC = 6
};
enum { /* TensorProto, StringStringEntryProto */
       DL_TENSOR_DIMS = 1,
       DL_TENSOR_TYPE = 2,
       DL_TENSOR_NAME = 8,
       DL_TENSOR_RAW = 9,
       DL_TENSOR_EXTERNAL = 13,
       DL_TENSOR_LOCATION = 14, /* 1: in another file */
       DL_ENTRY_KEY = 1,
       DL_ENTRY_VALUE = 2
};
enum { /* ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto, Dimension */
       DL_INFO_NAME = 1,
       DL_INFO_TYPE = 2,
       DL_TYPE_TENSOR = 1,
       DL_TENSOR_TYPE_ELEMENT = 1,
       DL_TENSOR_TYPE_SHAPE = 2,
       DL_SHAPE_DIM = 1,
       DL_DIM_VALUE = 1,
       DL_DIM_PARAM = 2
};

/* ONNX's number of an element type. */
int dl_onnx_dtype(dl_dtype dtype);

/* Append an attribute to the fields of a NodeProto. */
void dl_onnx_put_int(dl_buf *node, const char *name, int64_t value);
void dl_onnx_put_ints(dl_buf *node, const char *name, int n, const int64_t *values);
void dl_onnx_put_float(dl_buf *node, const char *name, double value);
void dl_onnx_put_text(dl_buf *node, const char *name, const char *value);
/* A list of one text. */
void dl_onnx_put_texts(dl_buf *node, const char *name, const char *value);
#endif
