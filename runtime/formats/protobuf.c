#include "runtime/formats/protobuf.h"

#include <stdint.h>

#include "ir/base/utf8.h"
#include "runtime/formats/varint.h"

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static void put_varint(dl_buf *b, uint64_t v) {
    char bytes[10];
    size_t n = 0;
    for (; v > 127; v >>= 7) bytes[n++] = (char)(v | 128);
    bytes[n++] = (char)v;
    dl_putn(b, bytes, n);
}

static void put_key(dl_buf *b, int field, int wire) {
    put_varint(b, (uint64_t)field << 3 | (uint64_t)wire);
}

void dlr_pb_varint(dl_buf *b, int field, uint64_t v) {
    put_key(b, field, VARINT);
    put_varint(b, v);
}

void dlr_pb_number(dl_buf *b, int field, uint64_t v) {
    if (v) dlr_pb_varint(b, field, v);
}

void dlr_pb_double(dl_buf *b, int field, double v) {
    put_key(b, field, FIXED64);
    dl_putn(b, (const char *)&v, sizeof v);
}

void dlr_pb_float(dl_buf *b, int field, float v) {
    put_key(b, field, FIXED32);
    dl_putn(b, (const char *)&v, sizeof v);
}

void dlr_pb_announce(dl_buf *b, int field, size_t n) {
    put_key(b, field, LENGTH);
    put_varint(b, n);
}

void dlr_pb_bytes(dl_buf *b, int field, const void *data, size_t n) {
    dlr_pb_announce(b, field, n);
    dl_putn(b, data, n);
}

void dlr_pb_text_n(dl_buf *b, int field, const char *s, size_t n) {
    dl_buf text = {0};
    for (size_t i = 0; i < n;) {
        int length = dl_utf8_length(s + i, n - i);
        dl_putn(&text, length ? s + i : "\xef\xbf\xbd", length ? (size_t)length : 3);
        i += length ? (size_t)length : 1;
    }
    dlr_pb_bytes(b, field, text.at ? text.at : "", text.n);
    dl_buf_free(&text);
}

void dlr_pb_text(dl_buf *b, int field, const char *s) { dlr_pb_text_n(b, field, s, strlen(s)); }

void dlr_pb_message(dl_buf *b, int field, dl_buf *m) {
    dlr_pb_bytes(b, field, m->at ? m->at : "", m->n);
    dl_buf_free(m);
}

/* ---- reading ---- */

static bool take_bytes(dlr_pb_view *m, uint64_t n, dlr_pb_view *bytes) {
    if (n > (uint64_t)(m->end - m->at)) return false;
    *bytes = (dlr_pb_view){m->at, m->at + n};
    m->at += n;
    return true;
}

bool dlr_pb_next(dlr_pb_view *m, dlr_pb_field *f) {
    uint64_t key, n;
    *f = (dlr_pb_field){0};
    if (!dlr_take_varint(&m->at, m->end, &key) || key >> 3 == 0 || key >> 3 > INT32_MAX)
        return false;
    f->field = (int)(key >> 3);
    switch (key & 7) {
    case VARINT: return dlr_take_varint(&m->at, m->end, &f->number);
    case LENGTH: return dlr_take_varint(&m->at, m->end, &n) && take_bytes(m, n, &f->bytes);
    case FIXED64: return take_bytes(m, 8, &f->bytes);
    case FIXED32: return take_bytes(m, 4, &f->bytes);
    default: return false; /* groups, which proto3 lacks */
    }
}

bool dlr_pb_find(dlr_pb_view m, int field, dlr_pb_field *f) {
    while (dlr_pb_next(&m, f))
        if (f->field == field) return true;
    return false;
}

bool dlr_pb_next_number(dlr_pb_view *list, uint64_t *v) {
    return dlr_take_varint(&list->at, list->end, v);
}
