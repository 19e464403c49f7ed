/* The protobuf wire format: fields of messages appended to a buffer, and found in a message. */
#ifndef DLR_PROTOBUF_H
#define DLR_PROTOBUF_H
#include "ir/base/str.h"

void dlr_pb_varint(dl_buf *b, int field, uint64_t v);
void dlr_pb_number(dl_buf *b, int field,
                   uint64_t v); /* the same, but 0 is left out, as proto3 does */
void dlr_pb_double(dl_buf *b, int field, double v);
void dlr_pb_float(dl_buf *b, int field, float v);
void dlr_pb_bytes(dl_buf *b, int field, const void *data, size_t n);
/* A string, which every reader wants in UTF-8: what is none becomes U+FFFD. */
void dlr_pb_text(dl_buf *b, int field, const char *s);
void dlr_pb_text_n(dl_buf *b, int field, const char *s, size_t n);
/* The finished message `m` as a field of `b`; frees `m`. */
void dlr_pb_message(dl_buf *b, int field, dl_buf *m);

/* ---- reading ---- */

/* A message, or the bytes of a field. */
typedef struct {
    const unsigned char *at, *end;
} dlr_pb_view;

typedef struct {
    int field;
    uint64_t number;   /* of a varint */
    dlr_pb_view bytes; /* of text, bytes and messages; of other fields empty */
} dlr_pb_field;

/* Takes the next field off the front of `m`. False: there is none, or what follows is no field. */
bool dlr_pb_next(dlr_pb_view *m, dlr_pb_field *f);
/* The first field of that number. False: there is none. */
bool dlr_pb_find(dlr_pb_view m, int field, dlr_pb_field *f);
#endif
