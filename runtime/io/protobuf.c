#include "runtime/io/protobuf.h"

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static void put_varint(dl_buf *b, uint64_t v) {
    char bytes[10];
    size_t n = 0;
    for (; v > 127; v >>= 7) bytes[n++] = (char)(v | 128);
    bytes[n++] = (char)v;
    dl_putn(b, bytes, n);
}

static void put_key(dl_buf *b, int field, int wire) { put_varint(b, (uint64_t)field << 3 | (uint64_t)wire); }

void dlr_pb_varint(dl_buf *b, int field, uint64_t v) {
    put_key(b, field, VARINT);
    put_varint(b, v);
}

void dlr_pb_double(dl_buf *b, int field, double v) {
    put_key(b, field, FIXED64);
    dl_putn(b, (const char *)&v, sizeof v);
}

void dlr_pb_float(dl_buf *b, int field, float v) {
    put_key(b, field, FIXED32);
    dl_putn(b, (const char *)&v, sizeof v);
}

void dlr_pb_bytes(dl_buf *b, int field, const void *data, size_t n) {
    put_key(b, field, LENGTH);
    put_varint(b, n);
    dl_putn(b, data, n);
}

void dlr_pb_text(dl_buf *b, int field, const char *s) { dlr_pb_bytes(b, field, s, strlen(s)); }

void dlr_pb_message(dl_buf *b, int field, dl_buf *m) {
    dlr_pb_bytes(b, field, m->at ? m->at : "", m->n);
    dl_buf_free(m);
}
