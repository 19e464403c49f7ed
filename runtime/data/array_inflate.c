/* Arrays whose numbers are packed with gzip or zlib, in a file's end or a part of it. zlib unpacks
 * their begin, libdeflate all of them. */
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/chunk_codec.h"

enum { PIECE = 1 << 16, ANY_HEADER = 32 + MAX_WBITS, PADDING = 8 };

typedef struct {
    z_stream z;
    int64_t at, end; /* of the packed bytes that are not read yet */
    unsigned char from[PIECE], dropped[PIECE];
} stream;

/* Unpacks until the output is full or the packed bytes end. Streams may follow one another. */
static bool fill(stream *t, int fd, const char *path, void *out, size_t n, size_t *got,
                 dl_error *err) {
    *got = 0;
    while (*got < n) {
        if (t->z.avail_in == 0 && t->at < t->end) {
            size_t more = t->end - t->at < PIECE ? (size_t)(t->end - t->at) : PIECE;
            if (!dl_read_at(fd, path, t->from, more, t->at, err)) return false;
            t->z.next_in = t->from, t->z.avail_in = (uInt)more, t->at += (int64_t)more;
        }
        const size_t room = n - *got < PIECE ? n - *got : PIECE;
        t->z.next_out = (unsigned char *)out + *got, t->z.avail_out = (uInt)room;
        const int said = inflate(&t->z, Z_NO_FLUSH);
        *got += room - t->z.avail_out;
        const bool spent = t->z.avail_in == 0 && t->at == t->end;
        const bool padded = t->z.avail_in > 0 && *t->z.next_in == 0;
        if (said == Z_STREAM_END && (spent || padded)) break;
        if (said == Z_STREAM_END && inflateReset(&t->z) == Z_OK) continue;
        if (said != Z_OK && !(said == Z_BUF_ERROR && !spent))
            return dl_fail(err, DL_INPUT, "%s is damaged: what it packed %s", path,
                           spent ? "ends too early" : "does not unpack");
    }
    return true;
}

/* Unpacks the rest, so that zlib compares the checksum. */
static bool drain(stream *t, int fd, const char *path, dl_error *err) {
    for (size_t got = PIECE; got == PIECE;)
        if (!fill(t, fd, path, t->dropped, PIECE, &got, err)) return false;
    return true;
}

static bool skip(stream *t, int fd, const char *path, int64_t n, dl_error *err) {
    for (size_t got = 1; n > 0 && got > 0; n -= (int64_t)got)
        if (!fill(t, fd, path, t->dropped, n < PIECE ? (size_t)n : PIECE, &got, err)) return false;
    return true;
}

bool dlr_inflate(int fd, const char *path, const dlr_packed *from, bool to_end, void *out, size_t n,
                 size_t *got, dl_error *err) {
    size_t found = 0;
    stream *t = calloc(1, sizeof *t);
    if (!t || inflateInit2(&t->z, from->raw ? -MAX_WBITS : ANY_HEADER) != Z_OK) {
        free(t);
        return dl_fail(err, DL_RESOURCE, "no memory to unpack %s", path);
    }
    t->at = from->at, t->end = from->at + from->bytes;
    bool ok = skip(t, fd, path, from->skip, err) && fill(t, fd, path, out, n, &found, err);
    if (ok && !got && found < n)
        ok = dl_fail(err, DL_INPUT, "%s is not whole: what it packed has fewer numbers", path);
    ok = ok && (!to_end || drain(t, fd, path, err));
    if (got) *got = found;
    inflateEnd(&t->z);
    free(t);
    return ok;
}

/* ---- as a source ---- */

typedef struct {
    dlr_packed from;
    int fd;
    size_t bytes;
} inflated;

/* Unpacks what has been read whole, with what lies before the numbers and is dropped then. */
static bool unpack_whole(const inflated *p, const unsigned char *packed, char *out) {
    const size_t skip = (size_t)p->from.skip, bytes = (size_t)p->from.bytes;
    const bool gzip = bytes > 1 && packed[0] == 0x1f && packed[1] == 0x8b;
    size_t done;
    if (!dlr_inflate_whole(gzip ? DLR_CODEC_GZIP : DLR_CODEC_ZLIB, packed, bytes, out,
                           skip + p->bytes + PADDING, &done) ||
        done < skip + p->bytes)
        return false;
    memmove(out, out + skip, p->bytes);
    return true;
}

/* A stream that is damaged, or goes on after the numbers, is left to zlib, which knows which. */
static bool load(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                 bool *absent, dl_error *err) {
    const inflated *p = how->state;
    (void)index;
    *absent = false;
    if (s->on_paper) {
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = p->from.bytes});
        return true;
    }
    unsigned char *packed = malloc((size_t)p->from.bytes + 1);
    if (!packed) return dl_fail(err, DL_RESOURCE, "no memory to unpack %s", s->label);
    bool ok = dl_read_at(p->fd, s->label, packed, (size_t)p->from.bytes, p->from.at, err);
    if (ok && !unpack_whole(p, packed, out))
        ok = dlr_inflate(p->fd, s->label, &p->from, true, out, p->bytes, NULL, err);
    free(packed);
    return ok;
}

static void close_inflated(void *state) {
    inflated *p = state;
    if (p->fd >= 0) close(p->fd);
    free(p);
}

bool dlr_inflated_open(dlr_source *s, const char *path, const dlr_packed *from, const dlr_run *run,
                       size_t cache, dl_error *err) {
    dlr_chunking how = {.spare = (size_t)from->skip + PADDING,
                        .swapped = run->swapped,
                        .order = run->fortran ? dlr_first_axis_fastest(s->rank) : NULL,
                        .load = load,
                        .close = close_inflated};
    inflated *p = how.state = calloc(1, sizeof *p);
    if (!p) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    *p = (inflated){.from = *from, .fd = dl_input_open(path, err)};
    if (!dlr_whole_open(s, &how, cache, err) || p->fd < 0) return false;
    p->bytes = dlr_element_bytes(s->type);
    for (int i = 0; i < s->rank; i++) p->bytes *= (size_t)s->dims[i];
    return true;
}
