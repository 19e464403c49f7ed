#include "exports/onnx/proto.h"

enum { /* AttributeProto; its types */
       ATTRIBUTE_NAME = 1,
       ATTRIBUTE_F = 2,
       ATTRIBUTE_I = 3,
       ATTRIBUTE_S = 4,
       ATTRIBUTE_G = 6,
       ATTRIBUTE_INTS = 8,
       ATTRIBUTE_STRINGS = 9,
       ATTRIBUTE_TYPE = 20,
       IS_FLOAT = 1,
       IS_INT = 2,
       IS_STRING = 3,
       IS_GRAPH = 5,
       IS_INTS = 7,
       IS_STRINGS = 8
};

int dl_onnx_dtype(dl_dtype dtype) {
    static const int number[DL_NDTYPES] = {
        [DL_F32] = 1, [DL_F64] = 11, [DL_F16] = 10, [DL_BF16] = 16,
        [DL_I32] = 6, [DL_I64] = 7,  [DL_BOOL] = 9};
    return number[dtype];
}

static dl_buf begin(const char *name, int type) {
    dl_buf b = {0};
    dlr_pb_text(&b, ATTRIBUTE_NAME, name);
    dlr_pb_varint(&b, ATTRIBUTE_TYPE, (uint64_t)type);
    return b;
}

void dl_onnx_put_int(dl_buf *node, const char *name, int64_t value) {
    dl_buf b = begin(name, IS_INT);
    dlr_pb_varint(&b, ATTRIBUTE_I, (uint64_t)value);
    dlr_pb_message(node, DL_NODE_ATTRIBUTE, &b);
}

void dl_onnx_put_ints(dl_buf *node, const char *name, int n, const int64_t *values) {
    dl_buf b = begin(name, IS_INTS);
    for (int i = 0; i < n; i++) dlr_pb_varint(&b, ATTRIBUTE_INTS, (uint64_t)values[i]);
    dlr_pb_message(node, DL_NODE_ATTRIBUTE, &b);
}

void dl_onnx_put_float(dl_buf *node, const char *name, double value) {
    dl_buf b = begin(name, IS_FLOAT);
    dlr_pb_float(&b, ATTRIBUTE_F, (float)value);
    dlr_pb_message(node, DL_NODE_ATTRIBUTE, &b);
}

void dl_onnx_put_text(dl_buf *node, const char *name, const char *value) {
    dl_buf b = begin(name, IS_STRING);
    dlr_pb_text(&b, ATTRIBUTE_S, value);
    dlr_pb_message(node, DL_NODE_ATTRIBUTE, &b);
}

void dl_onnx_put_texts(dl_buf *node, const char *name, const char *value) {
    dl_buf b = begin(name, IS_STRINGS);
    dlr_pb_text(&b, ATTRIBUTE_STRINGS, value);
    dlr_pb_message(node, DL_NODE_ATTRIBUTE, &b);
}

void dl_onnx_put_graph(dl_buf *node, const char *name, dl_buf *graph) {
    dl_buf b = begin(name, IS_GRAPH);
    dlr_pb_message(&b, ATTRIBUTE_G, graph);
    dlr_pb_message(node, DL_NODE_ATTRIBUTE, &b);
}
