/* The compressions of TIFF: none, LZW, deflate, PackBits, zstd. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "runtime/data/chunk_codec.h"
#include "runtime/data/tiff_pages.h"

typedef bool unpack_fn(const unsigned char *from, size_t bytes, unsigned char *to, size_t room,
                       size_t *done);

static bool copy(const unsigned char *from, size_t bytes, unsigned char *to, size_t room,
                 size_t *done) {
    *done = bytes < room ? bytes : room;
    memcpy(to, from, *done);
    return true;
}

static bool undo_deflate(const unsigned char *from, size_t bytes, unsigned char *to, size_t room,
                         size_t *done) {
    return dlr_inflate_whole(DLR_CODEC_ZLIB, from, bytes, to, room, done);
}

static bool undo_zstd(const unsigned char *from, size_t bytes, unsigned char *to, size_t room,
                      size_t *done) {
    *done = ZSTD_decompress(to, room, from, bytes);
    return !ZSTD_isError(*done);
}

/* A byte n below 128: n + 1 bytes follow; above 128: the next byte, 257 - n times. */
static bool undo_packbits(const unsigned char *from, size_t bytes, unsigned char *to, size_t room,
                          size_t *done) {
    *done = 0;
    for (size_t at = 0; at < bytes && *done < room;) {
        size_t head = from[at++], n = head < 128 ? head + 1 : 257 - head;
        if (head == 128) continue;
        if (n > room - *done || (head < 128 ? n : 1) > bytes - at) return false;
        if (head < 128)
            memcpy(to + *done, from + at, n);
        else
            memset(to + *done, from[at], n);
        at += head < 128 ? n : 1, *done += n;
    }
    return true;
}

/* LZW with codes of 9 to 12 bits, the high bit first. A code stands for bytes that were written
 * before: where they began, and how many. The codes grow one code early. */
static bool undo_lzw(const unsigned char *from, size_t bytes, unsigned char *to, size_t room,
                     size_t *done) {
    enum { CLEAR = 256, END = 257, FIRST = 258, MOST = 4096 };
    struct {
        size_t at, n;
    } entry[MOST], last = {0};
    size_t next = FIRST, at = 0;
    int width = 9, held = 0;
    uint32_t bits = 0;
    for (*done = 0; *done < room;) {
        while (held < width && at < bytes) bits = bits << 8 | from[at++], held += 8;
        if (held < width) return true; /* the caller compares the length */
        const size_t code = bits >> (held - width) & ((1U << width) - 1);
        held -= width;
        if (code == END) return true;
        if (code == CLEAR) {
            next = FIRST, width = 9, last.n = 0;
            continue;
        }
        const size_t begin = *done;
        if (code < CLEAR) {
            to[(*done)++] = (unsigned char)code;
        } else {
            if (code > next || code < FIRST || (code == next && last.n == 0)) return false;
            const size_t source = code == next ? last.at : entry[code].at,
                         n = code == next ? last.n + 1 : entry[code].n;
            if (n > room - *done) return false;
            for (size_t i = 0; i < n; i++) to[(*done)++] = to[source + i];
        }
        if (last.n > 0 && next < MOST) entry[next].at = last.at, entry[next++].n = last.n + 1;
        if (next == (1U << width) - 1 && width < 12) width++;
        last.at = begin, last.n = *done - begin;
    }
    return true;
}

static const struct {
    int64_t compression;
    unpack_fn *undo;
} rows[] = {{1, copy},
            {5, undo_lzw},
            {8, undo_deflate},
            {32946, undo_deflate},
            {32773, undo_packbits},
            {50000, undo_zstd},
            {34926, undo_zstd}};

bool dlr_tiff_unpacks(int64_t compression) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].compression == compression) return true;
    return false;
}

bool dlr_tiff_unpack(int64_t compression, const unsigned char *from, size_t bytes,
                     unsigned char *to, size_t room, size_t least) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t done = 0;
        if (rows[i].compression == compression)
            return rows[i].undo(from, bytes, to, room, &done) && done >= least;
    }
    return false;
}
