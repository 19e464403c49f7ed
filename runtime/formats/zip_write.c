#include "runtime/formats/zip.h"

enum { LOCAL = 30, DATA_DESCRIPTOR = 1 << 3, UTF8 = 1 << 11 };

static const uint32_t WIDE = 0xffffffff;

static void put(dl_buf *b, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        dl_putn(b, (const char[]){i < 8 ? (char)(value >> 8 * i) : 0}, 1);
}

static uint32_t narrow(uint64_t value) { return value >= WIDE ? WIDE : (uint32_t)value; }

/* Writes the fields that the local header and the directory share: version, flags, method, time
 * (none), CRC, sizes, name. */
static void put_common(dl_buf *b, uint32_t crc, uint64_t bytes, size_t name, size_t extra) {
    put(b, bytes >= WIDE ? 45 : 0, 2);
    put(b, DATA_DESCRIPTOR | UTF8, 2);
    put(b, 0, 2 + 4);
    put(b, crc, 4);
    put(b, narrow(bytes), 4), put(b, narrow(bytes), 4);
    put(b, name, 2), put(b, extra, 2);
}

bool dlr_zip_begin(dlr_zip_writer *z, const char *name, uint64_t bytes) {
    dl_buf head = {0};
    size_t n = strlen(name), wide = bytes >= WIDE ? 4 + 16 : 0;
    z->start = z->s->sum.n, z->bytes = bytes, z->name.n = 0;
    dl_putn(&z->name, name, n);
    size_t padding = (size_t)(-(z->start + LOCAL + n + wide + 4) & (DLR_ST_ALIGN - 1));
    put(&head, 0x04034b50, 4);
    put_common(&head, 0, bytes, n, wide + 4 + padding); /* the CRC follows the data */
    dl_putn(&head, name, n);
    if (wide) put(&head, 1, 2), put(&head, 16, 2), put(&head, bytes, 8), put(&head, bytes, 8);
    dl_puts(&head, "FB");
    put(&head, padding, 2);
    for (size_t i = 0; i < padding; i++) dl_puts(&head, "Z");
    bool ok = dlr_st_put(z->s, head.at, head.n);
    dl_buf_free(&head);
    z->s->crc = 0;
    return ok;
}

/* The extra field of the directory for sizes and offsets that do not fit 32 bits. */
static void put_wide(dl_buf *b, uint64_t bytes, uint64_t start) {
    size_t field = (bytes >= WIDE ? 16 : 0) + (start >= WIDE ? 8 : 0);
    if (!field) return;
    put(b, 1, 2), put(b, field, 2);
    if (bytes >= WIDE) put(b, bytes, 8), put(b, bytes, 8);
    if (start >= WIDE) put(b, start, 8);
}

bool dlr_zip_end(dlr_zip_writer *z) {
    dl_buf trailer = {0}, wide = {0}, *d = &z->directory;
    int size = z->bytes >= WIDE ? 8 : 4;
    uint32_t crc = z->s->crc;
    put(&trailer, 0x08074b50, 4);
    put(&trailer, crc, 4), put(&trailer, z->bytes, size), put(&trailer, z->bytes, size);
    bool ok = dlr_st_put(z->s, trailer.at, trailer.n);
    put_wide(&wide, z->bytes, z->start);
    put(d, 0x02014b50, 4);
    put(d, wide.n ? 45 : 0, 2); /* made by */
    put_common(d, crc, z->bytes, z->name.n, wide.n);
    put(d, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
    put(d, narrow(z->start), 4);
    dl_putn(d, z->name.at, z->name.n);
    if (wide.n) dl_putn(d, wide.at, wide.n);
    z->n++;
    dl_buf_free(&trailer), dl_buf_free(&wide);
    return ok;
}

bool dlr_zip_put(dlr_zip_writer *z, const char *name, const void *data, uint64_t bytes) {
    return dlr_zip_begin(z, name, bytes) && dlr_st_put(z->s, data, bytes) && dlr_zip_end(z);
}

bool dlr_zip_finish(dlr_zip_writer *z) {
    dl_buf end = {0};
    uint64_t at = z->s->sum.n, bytes = z->directory.n;
    if (at >= WIDE || z->n >= 0xffff) {
        put(&end, 0x06064b50, 4), put(&end, 44, 8);
        put(&end, 45, 2), put(&end, 45, 2), put(&end, 0, 4 + 4);
        put(&end, (uint64_t)z->n, 8), put(&end, (uint64_t)z->n, 8), put(&end, bytes, 8),
            put(&end, at, 8);
        put(&end, 0x07064b50, 4), put(&end, 0, 4), put(&end, at + bytes, 8), put(&end, 1, 4);
    }
    uint64_t n = z->n >= 0xffff ? 0xffff : (uint64_t)z->n;
    put(&end, 0x06054b50, 4), put(&end, 0, 2 + 2);
    put(&end, n, 2), put(&end, n, 2), put(&end, bytes, 4), put(&end, narrow(at), 4),
        put(&end, 0, 2);
    bool ok = dlr_st_put(z->s, z->directory.at, z->directory.n) && dlr_st_put(z->s, end.at, end.n);
    dl_buf_free(&end);
    return ok;
}

void dlr_zip_free(dlr_zip_writer *z) {
    dl_buf_free(&z->directory);
    dl_buf_free(&z->name);
}
