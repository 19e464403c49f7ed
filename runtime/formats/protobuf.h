/* The protobuf wire format: appends fields of messages to a buffer, and finds them in a message. */
#ifndef DLR_PROTOBUF_H
#define DLR_PROTOBUF_H
#include "ir/base/str.h"

void dlr_pb_varint(dl_buf *b, int field, uint64_t v);
void dlr_pb_number(dl_buf *b, int field, uint64_t v); /* the same, but 0 is omitted, as in proto3 */
void dlr_pb_double(dl_buf *b, int field, double v);
void dlr_pb_float(dl_buf *b, int field, float v);
void dlr_pb_bytes(dl_buf *b, int field, const void *data, size_t n);
/* Begins a field of n bytes, which the caller appends, or writes after the buffer. */
void dlr_pb_announce(dl_buf *b, int field, size_t n);
/* Appends a string. Readers require UTF-8: invalid bytes become U+FFFD. */
void dlr_pb_text(dl_buf *b, int field, const char *s);
void dlr_pb_text_n(dl_buf *b, int field, const char *s, size_t n);
/* Appends the finished message `m` as a field; frees `m`. */
void dlr_pb_message(dl_buf *b, int field, dl_buf *m);

/* ---- reading ---- */

/* A message, or the bytes of a field. */
typedef struct {
    const unsigned char *at, *end;
} dlr_pb_view;

typedef struct {
    int field;
    uint64_t number; /* value of a varint */
    /* content of text, bytes and messages; the 4 or 8 bytes of a number of fixed size; of a varint
     * NULL */
    dlr_pb_view bytes;
} dlr_pb_field;

/* Removes the first field of `m`. False: there is none, or the bytes are no field. */
bool dlr_pb_next(dlr_pb_view *m, dlr_pb_field *f);
/* The first field of that number. False: there is none. */
bool dlr_pb_find(dlr_pb_view m, int field, dlr_pb_field *f);
/* Removes the first number of a list of varints that stand one after the other. False: none. */
bool dlr_pb_next_number(dlr_pb_view *list, uint64_t *v);
#endif
