/* The protobuf wire format, as far as writing needs it: fields of messages appended to a buffer. */
#ifndef DLR_PROTOBUF_H
#define DLR_PROTOBUF_H
#include "ir/base/str.h"

void dlr_pb_varint(dl_buf *b, int field, uint64_t v);
void dlr_pb_double(dl_buf *b, int field, double v);
void dlr_pb_float(dl_buf *b, int field, float v);
void dlr_pb_bytes(dl_buf *b, int field, const void *data, size_t n);
void dlr_pb_text(dl_buf *b, int field, const char *s);
/* The finished message `m` as a field of `b`; frees `m`. */
void dlr_pb_message(dl_buf *b, int field, dl_buf *m);
#endif
