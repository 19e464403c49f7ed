/* The pages of a column of a Parquet file (parquet_meta.h), and its encodings. */
#include <libdeflate.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/chunk_codec.h"
#include "runtime/data/parquet_meta.h"
#include "runtime/formats/varint.h"

enum { MOST_UNPACKED = 1 << 30 };

/* Bytes that are still to be read. */
typedef struct {
    const unsigned char *at, *end;
} bytes_left;

static size_t left(const bytes_left *b) { return (size_t)(b->end - b->at); }

/* Number i of those of `width` bits each, the lowest bits first; the caller has checked that it is
 * there. */
static uint64_t take_bits(const unsigned char *from, uint64_t i, int width) {
    uint64_t v = 0, bit = i * (uint64_t)width;
    for (int done = 0; done < width;) {
        const int shift = (int)(bit % 8), n = 8 - shift < width - done ? 8 - shift : width - done;
        v |= (uint64_t)(from[bit / 8] >> shift & ((1 << n) - 1)) << done;
        done += n, bit += (uint64_t)n;
    }
    return v;
}

/* ---- runs: "RLE/bit-packing hybrid" ---- */

/* Takes n numbers of `width` bits. */
static bool take_runs(bytes_left *b, int width, uint32_t *out, size_t n) {
    const size_t bytes = ((size_t)width + 7) / 8;
    for (size_t done = 0; done < n;) {
        uint64_t head;
        if (!dlr_take_varint(&b->at, b->end, &head) || head < 2) return false;
        size_t count = n - done;
        if (head & 1) { /* groups of eight */
            const uint64_t all = head >> 1;
            uint64_t here;
            if (__builtin_mul_overflow(all, (uint64_t)width, &here) || here > left(b)) return false;
            if (all < (count + 7) / 8) count = (size_t)all * 8;
            for (size_t i = 0; i < count; i++) out[done + i] = (uint32_t)take_bits(b->at, i, width);
            b->at += here;
        } else {
            if (bytes > left(b)) return false;
            const uint32_t v = (uint32_t)take_bits(b->at, 0, 8 * (int)bytes);
            if (head >> 1 < count) count = (size_t)(head >> 1);
            for (size_t i = 0; i < count; i++) out[done + i] = v;
            b->at += bytes;
        }
        done += count;
    }
    return true;
}

/* ---- encodings: n values of `width` bytes ---- */

typedef struct {
    int number;
    bool (*take)(const dlr_parquet_column *c, bytes_left *b, char *out, size_t n);
} encoding_row;

static bool take_plain(const dlr_parquet_column *c, bytes_left *b, char *out, size_t n) {
    const bool bits = c->type == DLR_PARQUET_BOOLEAN;
    if ((bits ? n / 8 + (n % 8 != 0) : n * c->width) > left(b)) return false;
    for (size_t i = 0; bits && i < n; i++) out[i] = (char)take_bits(b->at, i, 1);
    if (!bits && n) memcpy(out, b->at, n * c->width);
    return true;
}

static bool take_bools(const dlr_parquet_column *c, bytes_left *b, char *out, size_t n) {
    if (c->type != DLR_PARQUET_BOOLEAN || left(b) < 4) return false;
    uint32_t *bits = malloc(n * sizeof *bits + 1);
    b->at += 4; /* the bytes that follow, which end the page */
    bool ok = bits && take_runs(b, 1, bits, n);
    for (size_t i = 0; ok && i < n; i++) out[i] = (char)(bits[i] & 1);
    free(bits);
    return ok;
}

/* DELTA_BINARY_PACKED: differences of whole numbers, in blocks, each with its least difference, and
 * with parts of their own width. */
static bool take_deltas(const dlr_parquet_column *c, bytes_left *b, char *out, size_t n) {
    uint64_t block, parts, count, first;
    if ((c->type != DLR_PARQUET_INT32 && c->type != DLR_PARQUET_INT64) ||
        !dlr_take_varint(&b->at, b->end, &block) || !dlr_take_varint(&b->at, b->end, &parts) ||
        !dlr_take_varint(&b->at, b->end, &count) || !dlr_take_varint(&b->at, b->end, &first) ||
        parts < 1 || parts > 1024 || block < parts || block > 1 << 24 || block % parts ||
        block / parts % 8 || count != n)
        return false;
    uint64_t now = (first >> 1) ^ -(first & 1);
    for (size_t done = 0; done < n;) {
        uint64_t least;
        if (done == 0) memcpy(out, &now, c->width), done++;
        if (done == n) break;
        if (!dlr_take_varint(&b->at, b->end, &least) || left(b) < parts) return false;
        const unsigned char *widths = b->at;
        least = (least >> 1) ^ -(least & 1), b->at += parts;
        for (uint64_t k = 0; k < parts && done < n; k++) {
            const uint64_t size = block / parts;
            if (widths[k] > 64 || size / 8 * widths[k] > left(b)) return false;
            for (uint64_t i = 0; i < size && done < n; i++, done++) {
                now += least + take_bits(b->at, i, widths[k]);
                memcpy(out + done * c->width, &now, c->width);
            }
            b->at += size / 8 * widths[k];
        }
    }
    return true;
}

/* BYTE_STREAM_SPLIT: the first byte of every value, then the second of every one, ... */
static bool take_split(const dlr_parquet_column *c, bytes_left *b, char *out, size_t n) {
    if (c->type == DLR_PARQUET_BOOLEAN || n * c->width > left(b)) return false;
    for (size_t k = 0; k < c->width; k++)
        for (size_t i = 0; i < n; i++) out[i * c->width + k] = (char)b->at[k * n + i];
    return true;
}

static const encoding_row encodings[] = {
    {0, take_plain}, {3, take_bools}, {5, take_deltas}, {9, take_split}};

static bool is_by_dictionary(int encoding) { return encoding == 2 || encoding == 8; }

/* ---- values as elements ---- */

typedef struct {
    const dlr_parquet_column *c;
    char *out;
    int64_t row, rows;
    char *dictionary;
    size_t entries;
    const char *why;
} column_out;

static bool fail(column_out *o, const char *why) { return o->why = why, false; }

/* A whole number as a double; false where it is none. */
static bool put_double(const dlr_parquet_column *c, const char *from, char *out) {
    uint64_t v = 0;
    memcpy(&v, from, c->width);
    if (c->width == 4 && c->is_signed) v = (uint64_t)(int64_t)(int32_t)v;
    const uint64_t size = c->is_signed && (int64_t)v < 0 ? -v : v;
    const double d = c->is_signed ? (double)(int64_t)v : (double)v;
    memcpy(out, &d, sizeof d);
    return size <= 1ULL << 53;
}

static bool put_value(column_out *o, const char *from) {
    const dlr_parquet_column *c = o->c;
    const size_t bytes = dlr_element_bytes(c->element);
    char *to = o->out + (size_t)o->row++ * bytes;
    if (c->element != DLR_EL_F64 || c->type == DLR_PARQUET_DOUBLE) /* the low bytes of wider ones */
        return memcpy(to, from, bytes), true;
    return put_double(c, from, to) ||
           fail(o,
                "has a whole number beyond 2^53, and rows that may have none, which f64 does not "
                "hold: write it with statistics and without such rows, or as floats");
}

static bool put_missing(column_out *o) {
    const size_t bytes = dlr_element_bytes(o->c->element);
    char *to = o->out + (size_t)o->row++ * bytes;
    const double d = NAN;
    const float f = NAN;
    const uint16_t h = 0x7e00;
    if (o->c->element == DLR_EL_F64)
        memcpy(to, &d, bytes);
    else if (o->c->element == DLR_EL_F32)
        memcpy(to, &f, bytes);
    else if (o->c->element == DLR_EL_F16)
        memcpy(to, &h, bytes);
    else
        return fail(o, "is damaged: it has missing values, which its footer does not count");
    return true;
}

/* ---- pages ---- */

/* Whether a row has a value, of each of n. */
static bool take_levels(column_out *o, const dlr_parquet_page *page, bytes_left *b,
                        uint32_t *present, size_t n) {
    for (size_t i = 0; i < n; i++) present[i] = 1;
    size_t bytes = (size_t)page->level_bytes, repeat = (size_t)page->repeat_bytes;
    if (page->kind != DLR_PAGE_DATA_2) {
        if (!o->c->optional) return true;
        if (left(b) < 4) return false;
        bytes = (size_t)take_bits(b->at, 0, 32), b->at += 4, repeat = 0;
    }
    if (bytes > left(b)) return false;
    bytes_left levels = {b->at + repeat, b->at + bytes};
    b->at += bytes;
    return !o->c->optional || take_runs(&levels, 1, present, n);
}

/* Takes n values, packed. */
static bool take_values(column_out *o, int number, bytes_left *b, char *out, size_t n) {
    const size_t width = o->c->width;
    if (!is_by_dictionary(number)) {
        for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
            if (encodings[i].number == number) return encodings[i].take(o->c, b, out, n);
        return fail(o, "has an encoding that is not read: write it again with plain encoding");
    }
    if (n == 0) return true;
    if (left(b) < 1 || *b->at > 32) return false;
    const int bits = *b->at++;
    uint32_t *index = malloc(n * sizeof *index);
    bool ok = index && take_runs(b, bits, index, n);
    for (size_t i = 0; ok && i < n; i++) {
        ok = index[i] < o->entries;
        if (ok) memcpy(out + i * width, o->dictionary + index[i] * width, width);
    }
    free(index);
    return ok;
}

static bool put_page(column_out *o, const dlr_parquet_page *page, bytes_left b) {
    const size_t n = (size_t)page->values;
    if (page->values > o->rows - o->row) return false;
    uint32_t *present = malloc(n * sizeof *present + 1);
    char *values = malloc(n * o->c->width + 8);
    bool ok = present && values && take_levels(o, page, &b, present, n);
    size_t there = 0, used = 0;
    for (size_t i = 0; ok && i < n; i++) there += present[i] != 0;
    ok = ok && take_values(o, page->encoding, &b, values, there);
    for (size_t i = 0; ok && i < n; i++)
        ok = present[i] ? put_value(o, values + o->c->width * used++) : put_missing(o);
    free(present), free(values);
    return ok;
}

static bool put_dictionary(column_out *o, const dlr_parquet_page *page, bytes_left b) {
    const size_t n = (size_t)page->values;
    if (o->dictionary || n > left(&b) || (page->encoding != 0 && page->encoding != 2)) return false;
    o->dictionary = malloc(n * o->c->width + 1), o->entries = n;
    return o->dictionary && take_plain(o->c, &b, o->dictionary, n);
}

static const dlr_codec codecs[] = {[1] = {DLR_CODEC_SNAPPY, 1},
                                   [2] = {DLR_CODEC_GZIP, 1},
                                   [6] = {DLR_CODEC_ZSTD, 1},
                                   [7] = {DLR_CODEC_LZ4_BLOCK, 1}};

bool dlr_parquet_unpacks(int codec) {
    return codec >= 0 && (size_t)codec < sizeof codecs / sizeof *codecs &&
           (codec == 0 || codecs[codec].element > 0);
}

/* The content of a page without its codec: `from`, or in *room, which the caller frees. */
static bool unpack_page(column_out *o, int codec, const dlr_parquet_page *page, unsigned char *from,
                        char **room, bytes_left *out) {
    const size_t n = (size_t)page->bytes, size = (size_t)page->unpacked;
    const size_t plain = page->kind == DLR_PAGE_DATA_2 ? (size_t)page->level_bytes : 0;
    const char *why;
    *out = (bytes_left){from, from + n};
    if (codec == 0 || (page->kind == DLR_PAGE_DATA_2 && !page->packed)) return true;
    if (plain > n || plain > size || size > MOST_UNPACKED) return false;
    *room = malloc(size + 1);
    if (!*room) return fail(o, "has pages for which there is no memory");
    memcpy(*room, from, plain);
    *out = (bytes_left){(unsigned char *)*room, (unsigned char *)*room + size};
    return size == plain || dlr_chunk_unpack(&codecs[codec], 1, 0, from + plain, n - plain,
                                             *room + plain, size - plain, &why);
}

/* Takes one page; returns the bytes of all of it, or 0 with a reason. */
static size_t take_page(column_out *o, int codec, unsigned char *from, size_t n) {
    dlr_parquet_page page;
    bytes_left content;
    char *room = NULL;
    const size_t head = dlr_parquet_read_page(from, n, &page);
    if (head == 0 || (uint64_t)page.bytes > n - head) return 0;
    const size_t bytes = (size_t)page.bytes;
    if (page.checked && libdeflate_crc32(0, from + head, bytes) != page.checksum)
        return fail(o, "is damaged: the checksum of a page does not fit"), 0;
    const bool data = page.kind == DLR_PAGE_DATA || page.kind == DLR_PAGE_DATA_2;
    bool ok = !data && page.kind != DLR_PAGE_DICTIONARY;
    if (!ok)
        ok = unpack_page(o, codec, &page, from + head, &room, &content) &&
             (data ? put_page(o, &page, content) : put_dictionary(o, &page, content));
    free(room);
    return ok ? head + bytes : 0;
}

bool dlr_parquet_unpack(const dlr_parquet_column *column, const dlr_parquet_chunk *chunk,
                        unsigned char *from, size_t n, char *out, const char **why) {
    column_out o = {.c = column,
                    .out = out,
                    .rows = chunk->rows,
                    .why = "is damaged: a page is not as Parquet has it"};
    bool ok = true;
    for (size_t at = 0; ok && o.row < o.rows;) {
        const size_t used = at < n ? take_page(&o, chunk->codec, from + at, n - at) : 0;
        ok = used > 0, at += used;
    }
    free(o.dictionary);
    *why = o.why;
    return ok;
}
