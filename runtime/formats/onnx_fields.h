/* Field numbers of the messages of ONNX's format (onnx.proto), for its writer and its reader. */
#ifndef DLR_ONNX_FIELDS_H
#define DLR_ONNX_FIELDS_H
enum { /* ModelProto, OperatorSetIdProto */
       DL_MODEL_IR = 1,
       DL_MODEL_PRODUCER = 2,
       DL_MODEL_PRODUCER_VERSION = 3,
       DL_MODEL_GRAPH = 7,
       DL_MODEL_OPSET = 8,
       DL_MODEL_METADATA = 14,
       DL_MODEL_FUNCTION = 25,
       DL_OPSET_DOMAIN = 1,
       DL_OPSET_VERSION = 2
};
enum { /* GraphProto */
       DL_GRAPH_NODE = 1,
       DL_GRAPH_NAME = 2,
       DL_GRAPH_INITIALIZER = 5,
       DL_GRAPH_INPUT = 11,
       DL_GRAPH_OUTPUT = 12,
       DL_GRAPH_INFO = 13,
       DL_GRAPH_METADATA = 16
};
enum { /* NodeProto */
       DL_NODE_INPUT = 1,
       DL_NODE_OUTPUT = 2,
       DL_NODE_NAME = 3,
       DL_NODE_OP = 4,
       DL_NODE_ATTRIBUTE = 5,
       DL_NODE_DOC = 6,
       DL_NODE_DOMAIN = 7,
       DL_NODE_METADATA = 9
};
enum { /* TensorProto, StringStringEntryProto */
       DL_TENSOR_DIMS = 1,
       DL_TENSOR_TYPE = 2,
       DL_TENSOR_FLOATS = 4,
       DL_TENSOR_INT32S = 5,
       DL_TENSOR_INT64S = 7,
       DL_TENSOR_DOUBLES = 10,
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
enum { /* AttributeProto */
       DL_ATTRIBUTE_NAME = 1,
       DL_ATTRIBUTE_FLOAT = 2,
       DL_ATTRIBUTE_INT = 3,
       DL_ATTRIBUTE_TEXT = 4,
       DL_ATTRIBUTE_TENSOR = 5,
       DL_ATTRIBUTE_FLOATS = 7,
       DL_ATTRIBUTE_INTS = 8,
       DL_ATTRIBUTE_TEXTS = 9
};
#endif
