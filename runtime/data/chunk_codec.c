#include "runtime/data/chunk_codec.h"

#include <blosc.h>
#include <bzlib.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "runtime/formats/crc32c.h"

/* ---- decoders: `from` into `to` of exactly `room` bytes ---- */

typedef bool undo_fn(const dlr_codec *c, const unsigned char *from, size_t bytes, unsigned char *to,
                     size_t room);

bool dlr_inflate_whole(dlr_codec_kind kind, const void *from, size_t bytes, void *to, size_t room,
                       size_t *done) {
    const char *in = from;
    size_t used = 0, made = 0;
    enum libdeflate_result r = LIBDEFLATE_BAD_DATA;
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    *done = 0;
    if (!d) return false;
    if (kind == DLR_CODEC_ZLIB)
        r = libdeflate_zlib_decompress(d, in, bytes, to, room, done);
    else if (kind == DLR_CODEC_DEFLATE)
        r = libdeflate_deflate_decompress(d, in, bytes, to, room, done);
    else
        do {
            r = libdeflate_gzip_decompress_ex(d, in, bytes, (char *)to + *done, room - *done, &used,
                                              &made);
            if (r == LIBDEFLATE_SUCCESS) in += used, bytes -= used, *done += made;
            while (r == LIBDEFLATE_SUCCESS && bytes > 0 && *in == 0) in++, bytes--; /* padding */
        } while (r == LIBDEFLATE_SUCCESS && bytes > 0);
    libdeflate_free_decompressor(d);
    return r == LIBDEFLATE_SUCCESS;
}

static bool undo_deflated(const dlr_codec *c, const unsigned char *from, size_t bytes,
                          unsigned char *to, size_t room) {
    size_t done;
    return dlr_inflate_whole(c->kind, from, bytes, to, room, &done) && done == room;
}

static bool undo_zstd(const dlr_codec *c, const unsigned char *from, size_t bytes,
                      unsigned char *to, size_t room) {
    (void)c;
    return ZSTD_decompress(to, room, from, bytes) == room;
}

static bool undo_blosc(const dlr_codec *c, const unsigned char *from, size_t bytes,
                       unsigned char *to, size_t room) {
    (void)c;
    size_t says = 0;
    return blosc_cbuffer_validate(from, bytes, &says) == 0 && says == room && room <= INT32_MAX &&
           blosc_decompress_ctx(from, to, room, 1) == (int)room;
}

/* LZF. A byte below 32 is the number of literal bytes less 1, which follow. Otherwise it begins a
 * copy of earlier output: the three high bits are its length less 2 (7: the next byte is added),
 * the other bits and one more byte its distance less 1. */
static bool undo_lzf(const dlr_codec *c, const unsigned char *from, size_t bytes, unsigned char *to,
                     size_t room) {
    (void)c;
    size_t at = 0, done = 0;
    while (at < bytes) {
        size_t head = from[at++], n = head + 1;
        if (head < 32) {
            if (n > bytes - at || n > room - done) return false;
            memcpy(to + done, from + at, n);
            at += n, done += n;
            continue;
        }
        n = (head >> 5) + 2;
        if (head >> 5 == 7) n += at < bytes ? from[at++] : 0;
        if (at == bytes) return false;
        size_t back = ((head & 31) << 8 | from[at++]) + 1;
        if (back > done || n > room - done) return false;
        for (; n > 0; n--, done++) to[done] = to[done - back];
    }
    return done == room;
}

/* A length of LZ4: the four bits of a token, and where they are 15, bytes until one is not 255. */
static bool take_length(const unsigned char *from, size_t bytes, size_t *at, size_t *n) {
    if (*n != 15) return true;
    for (unsigned char more = 255; more == 255; *n += more) {
        if (*at == bytes) return false;
        more = from[(*at)++];
    }
    return true;
}

/* One block of LZ4 ("LZ4 Block Format Description"). A token has the number of literal bytes and
 * the length less 4 of a copy of earlier output, whose distance is two bytes. The last sequence has
 * no copy. */
static bool undo_lz4_block(const unsigned char *from, size_t bytes, unsigned char *to,
                           size_t room) {
    size_t at = 0, done = 0;
    while (at < bytes) {
        size_t token = from[at++], n = token >> 4, copied = token & 15;
        if (!take_length(from, bytes, &at, &n) || n > bytes - at || n > room - done) return false;
        memcpy(to + done, from + at, n);
        at += n, done += n;
        if (at == bytes) break;
        if (bytes - at < 2) return false;
        size_t back = from[at] | (size_t)from[at + 1] << 8;
        at += 2;
        if (!take_length(from, bytes, &at, &copied)) return false;
        copied += 4;
        if (back == 0 || back > done || copied > room - done) return false;
        for (; copied > 0; copied--, done++) to[done] = to[done - back];
    }
    return done == room;
}

static bool undo_lz4_alone(const dlr_codec *c, const unsigned char *from, size_t bytes,
                           unsigned char *to, size_t room) {
    (void)c;
    return undo_lz4_block(from, bytes, to, room);
}

static size_t little_endian(const unsigned char *from, size_t bytes) {
    size_t v = 0;
    for (size_t i = bytes; i > 0; i--) v = v << 8 | from[i - 1];
    return v;
}

/* Snappy ("Snappy compressed format description"). The size comes first, seven bits a byte. Then
 * the two low bits of a byte tell literal bytes (0), whose number less 1 is in the other bits or
 * (60 and above) in one to four bytes, from copies of earlier output, whose distance takes one byte
 * more and three bits (1), two bytes (2) or four (3). */
static bool undo_snappy(const dlr_codec *c, const unsigned char *from, size_t bytes,
                        unsigned char *to, size_t room) {
    (void)c;
    size_t at = 0, done = 0, size = 0;
    for (int shift = 0;; shift += 7) {
        if (at == bytes || shift > 28) return false;
        size |= (size_t)(from[at] & 127) << shift;
        if (from[at++] < 128) break;
    }
    if (size != room) return false;
    while (at < bytes) {
        const size_t head = from[at++], kind = head & 3;
        const size_t more = kind == 0   ? (head >> 2 < 60 ? 0 : (head >> 2) - 59)
                            : kind == 3 ? 4
                                        : kind;
        if (more > bytes - at) return false;
        const size_t number = little_endian(from + at, more);
        size_t n = kind == 0 ? (more ? number : head >> 2) + 1 : (head >> 2) + 1;
        at += more;
        if (kind == 0) {
            if (n > bytes - at || n > room - done) return false;
            memcpy(to + done, from + at, n);
            at += n, done += n;
            continue;
        }
        if (kind == 1) n = (head >> 2 & 7) + 4;
        const size_t back = kind == 1 ? (head >> 5) << 8 | number : number;
        if (back == 0 || back > done || n > room - done) return false;
        for (; n > 0; n--, done++) to[done] = to[done - back];
    }
    return done == room;
}

static uint64_t big_endian(const unsigned char *from, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | from[i];
    return v;
}

/* HDF5's filter 32004: the size of all and of a block, then each block with its packed size. A
 * block that did not shrink is stored as it is. */
static bool undo_lz4(const dlr_codec *c, const unsigned char *from, size_t bytes, unsigned char *to,
                     size_t room) {
    (void)c;
    enum { HEADER = 12, SIZE = 4 };
    if (bytes < HEADER || big_endian(from, 8) != room) return false;
    size_t block = big_endian(from + 8, SIZE), at = HEADER, done = 0;
    if (block == 0) return false;
    while (done < room) {
        if (bytes - at < SIZE) return false;
        size_t packed = big_endian(from + at, SIZE), n = room - done < block ? room - done : block;
        at += SIZE;
        if (packed > bytes - at) return false;
        if (packed == n)
            memcpy(to + done, from + at, n);
        else if (!undo_lz4_block(from + at, packed, to + done, n))
            return false;
        at += packed, done += n;
    }
    return true;
}

static bool undo_lz4_sized(const dlr_codec *c, const unsigned char *from, size_t bytes,
                           unsigned char *to, size_t room) {
    (void)c;
    enum { SIZE = 4 };
    if (bytes < SIZE) return false;
    return little_endian(from, SIZE) == room && undo_lz4_block(from + SIZE, bytes - SIZE, to, room);
}

static bool undo_bzip2(const dlr_codec *c, const unsigned char *from, size_t bytes,
                       unsigned char *to, size_t room) {
    (void)c;
    unsigned int n = (unsigned int)room;
    if (room > UINT32_MAX || bytes > UINT32_MAX) return false;
    return BZ2_bzBuffToBuffDecompress((char *)to, &n, (char *)(uintptr_t)from, (unsigned int)bytes,
                                      0, 0) == BZ_OK &&
           n == room;
}

static bool undo_shuffle(const dlr_codec *c, const unsigned char *from, size_t bytes,
                         unsigned char *to, size_t room) {
    if (bytes != room) return false;
    size_t size = c->element, n = bytes / size, rest = n * size;
    const unsigned char *a = from, *b = from + n, *x = from + 2 * n, *y = from + 3 * n;
    if (size == 4)
        for (size_t i = 0; i < n; i++) {
            uint32_t v = a[i] | (uint32_t)b[i] << 8 | (uint32_t)x[i] << 16 | (uint32_t)y[i] << 24;
            to[4 * i] = (unsigned char)v, to[4 * i + 1] = (unsigned char)(v >> 8);
            to[4 * i + 2] = (unsigned char)(v >> 16), to[4 * i + 3] = (unsigned char)(v >> 24);
        }
    else
        for (size_t k = 0; k < size; k++)
            for (size_t i = 0; i < n; i++) to[i * size + k] = from[k * n + i];
    memcpy(to + rest, from + rest, bytes - rest);
    return true;
}

static undo_fn *const undo[] = {
    [DLR_CODEC_DEFLATE] = undo_deflated,
    [DLR_CODEC_ZLIB] = undo_deflated,
    [DLR_CODEC_GZIP] = undo_deflated,
    [DLR_CODEC_ZSTD] = undo_zstd,
    [DLR_CODEC_BLOSC] = undo_blosc,
    [DLR_CODEC_LZ4] = undo_lz4,
    [DLR_CODEC_LZ4_BLOCK] = undo_lz4_alone,
    [DLR_CODEC_SNAPPY] = undo_snappy,
    [DLR_CODEC_LZ4_SIZED] = undo_lz4_sized,
    [DLR_CODEC_BZIP2] = undo_bzip2,
    [DLR_CODEC_LZF] = undo_lzf,
    [DLR_CODEC_SHUFFLE] = undo_shuffle,
    [DLR_CODEC_FLETCHER32] = NULL,
    [DLR_CODEC_CRC32C] = NULL,
};

/* ---- checksums, which follow the data ---- */

enum { CHECKSUM = 4 };

/* J. Fletcher, "An arithmetic checksum for serial transmissions" (1982), of 16-bit words, high byte
 * first, as in HDF5. */
static uint32_t fletcher32(const unsigned char *p, size_t n) {
    enum { BLOCK = 360 }; /* most words before the sums must be reduced */
    uint32_t a = 0, b = 0;
    size_t words = n / 2;
    while (words > 0) {
        size_t part = words < BLOCK ? words : BLOCK;
        words -= part;
        for (; part > 0; part--, p += 2) a += (uint32_t)(p[0] << 8 | p[1]), b += a;
        a = (a & 0xffff) + (a >> 16), b = (b & 0xffff) + (b >> 16);
    }
    if (n % 2) {
        a += (uint32_t)p[0] << 8, b += a;
        a = (a & 0xffff) + (a >> 16), b = (b & 0xffff) + (b >> 16);
    }
    a = (a & 0xffff) + (a >> 16), b = (b & 0xffff) + (b >> 16);
    return b << 16 | a;
}

static bool is_checksum(const dlr_codec *c) { return !undo[c->kind]; }

static bool checksum_holds(const dlr_codec *c, const unsigned char *data, size_t bytes) {
    const unsigned char *p = data + bytes;
    uint32_t want = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    uint32_t found =
        c->kind == DLR_CODEC_CRC32C ? dlr_crc32c(data, bytes) : fletcher32(data, bytes);
    return found == want;
}

/* ---- all codecs ---- */

bool dlr_chunk_unpack(const dlr_codec *codecs, int n, uint32_t skipped, void *packed, size_t bytes,
                      void *out, size_t out_bytes, const char **why) {
    unsigned char *now = packed, *spare = NULL;
    int moves = 0;
    size_t room = out_bytes; /* the output size of the current codec: the data, and the checksums of
                                the codecs before it */
    for (int i = 0; i < n; i++)
        if (!(skipped >> i & 1)) is_checksum(&codecs[i]) ? (room += CHECKSUM) : (size_t)moves++;
    bool ok = true;
    *why = "is damaged: its chunk does not unpack";
    for (int i = n - 1; ok && i >= 0; i--) {
        if (skipped >> i & 1) continue;
        if (is_checksum(&codecs[i])) {
            ok = bytes >= CHECKSUM && checksum_holds(&codecs[i], now, bytes - CHECKSUM);
            if (!ok) *why = "is damaged: the checksum of a chunk does not fit";
            bytes -= CHECKSUM, room -= CHECKSUM;
            continue;
        }
        unsigned char *to = --moves == 0 && room == out_bytes ? out : malloc(room + 1);
        if (!to) *why = "has chunks for which there is no memory";
        ok = to && undo[codecs[i].kind](&codecs[i], now, bytes, to, room);
        if (spare) free(spare);
        spare = to == out ? NULL : to;
        now = to, bytes = room;
    }
    ok = ok && bytes == out_bytes;
    if (ok && now != out) memcpy(out, now, out_bytes);
    free(spare);
    return ok;
}
