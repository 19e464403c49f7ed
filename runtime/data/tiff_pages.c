/* Directories of TIFF files, and the pixels of a page. */
#include "runtime/data/tiff_pages.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/input.h"
#include "runtime/data/byte_order.h"

enum {
    MOST_FIELDS = 4096,
    MOST_TEXT = 1 << 16,
    MOST_PIECE = 1 << 30,
    ENTRY = 12,
    LARGE_ENTRY = 20
};

static bool damaged(const dlr_tiff *t, const char *what, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s is damaged: %s", t->path, what);
}

bool dlr_tiff_header(dlr_tiff *t, int64_t *next, dl_error *err) {
    unsigned char head[16] = {0};
    const size_t n = t->size < (int64_t)sizeof head ? (size_t)t->size : sizeof head;
    if (n < 8) return damaged(t, "it ends within its header", err);
    if (!dl_read_at(t->fd, t->path, head, n, 0, err)) return false;
    t->big = head[0] == 'M', t->large = dlr_load(head + 2, 2, t->big) == 43;
    if (t->large && (n < sizeof head || dlr_load(head + 4, 2, t->big) != 8))
        return damaged(t, "its header", err);
    *next = (int64_t)(t->large ? dlr_load(head + 8, 8, t->big) : dlr_load(head + 4, 4, t->big));
    return true;
}

/* ---- directories ---- */

/* Bytes of a value by its type: BYTE, ASCII, SHORT, LONG, RATIONAL, ..., LONG8. */
static int bytes_of(uint64_t type) {
    static const unsigned char bytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* The values of a field; they lie in it where they fit. */
static bool take_values(const dlr_tiff *t, const unsigned char *field, int64_t at,
                        dlr_tiff_values *v) {
    const size_t room = t->large ? 8 : 4;
    v->bytes = bytes_of(dlr_load(field + 2, 2, t->big));
    const uint64_t n = dlr_load(field + 4, room, t->big);
    if (v->bytes == 0 || n > (uint64_t)t->size) return false;
    v->n = (int64_t)n, v->at = at + 4 + (int64_t)room;
    if (n * (uint64_t)v->bytes > room) v->at = (int64_t)dlr_load(field + 4 + room, room, t->big);
    return v->at >= 0 && v->at <= t->size && v->n * v->bytes <= t->size - v->at;
}

static bool read_values(const dlr_tiff *t, const dlr_tiff_values *v, int64_t first, int64_t n,
                        int64_t *out, dl_error *err) {
    unsigned char bytes[8];
    if (v->n - first < n || v->bytes > 8)
        return damaged(t, "a list of its directory is too short", err);
    for (int64_t i = 0; i < n; i++) {
        if (!dl_read_at(t->fd, t->path, bytes, (size_t)v->bytes, v->at + (first + i) * v->bytes,
                        err))
            return false;
        out[i] = (int64_t)dlr_load(bytes, (size_t)v->bytes, t->big);
    }
    return true;
}

/* The one value of samples that must have the same; -1: they differ. */
static bool read_same(const dlr_tiff *t, const dlr_tiff_values *v, int64_t *out, dl_error *err) {
    enum { MOST = 64 };
    int64_t all[MOST];
    const int64_t n = v->n < MOST ? v->n : MOST;
    if (!read_values(t, v, 0, n, all, err)) return false;
    *out = n > 0 ? all[0] : -1;
    for (int64_t i = 1; i < n; i++)
        if (all[i] != all[0]) *out = -1;
    return true;
}

/* A text of MOST_TEXT bytes at most; longer ones are left out. */
static bool take_text(dl_arena *arena, const dlr_tiff *t, const unsigned char *field, int64_t at,
                      const char **out, dl_error *err) {
    dlr_tiff_values v;
    if (!take_values(t, field, at, &v) || v.bytes != 1 || v.n > MOST_TEXT) return true;
    char *text = dl_alloc(arena, (size_t)v.n + 1);
    *out = text;
    text[v.n] = 0;
    return dl_read_at(t->fd, t->path, text, (size_t)v.n, v.at, err);
}

static bool take_field(dl_arena *arena, const dlr_tiff *t, const unsigned char *field, int64_t at,
                       dlr_tiff_page *p, dl_error *err) {
    dlr_tiff_values v;
    int64_t kind = 0;
    const uint64_t tag = dlr_load(field, 2, t->big);
    const struct {
        uint64_t tag;
        int64_t *to;
    } numbers[] = {{254, &kind},           {256, &p->width},       {257, &p->height},
                   {258, &p->bits},        {259, &p->compression}, {277, &p->samples},
                   {278, &p->tile_height}, {284, &p->planes},      {317, &p->predictor},
                   {322, &p->tile_width},  {323, &p->tile_height}, {339, &p->format},
                   {266, &p->bit_order},   {32997, &p->depth}};
    const bool list = tag == 273 || tag == 324 || tag == 279 || tag == 325;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].tag != tag) continue;
        if (!take_values(t, field, at, &v)) return damaged(t, "a field of its directory", err);
        if (!read_same(t, &v, numbers[i].to, err)) return false;
        p->tiled |= tag == 322, p->reduced |= kind > 0 && (kind & 1);
    }
    if (list && !take_values(t, field, at, tag == 273 || tag == 324 ? &p->offset : &p->count))
        return damaged(t, "a field of its directory", err);
    p->metamorph |= tag == 33629;
    if (tag == 270) return take_text(arena, t, field, at, &p->text, err);
    return tag != 42113 || take_text(arena, t, field, at, &p->missing, err);
}

bool dlr_tiff_directory(dl_arena *arena, const dlr_tiff *t, int64_t *next, dlr_tiff_page *page,
                        dl_error *err) {
    unsigned char bytes[LARGE_ENTRY];
    const size_t counts = t->large ? 8 : 2, entry = t->large ? LARGE_ENTRY : ENTRY,
                 offset = t->large ? 8 : 4;
    *page = (dlr_tiff_page){.samples = 1,
                            .bits = 1,
                            .format = 1,
                            .compression = 1,
                            .predictor = 1,
                            .planes = 1,
                            .bit_order = 1,
                            .depth = 1};
    if (*next < 8 || *next > t->size - (int64_t)counts)
        return damaged(t, "a directory lies beyond its end", err);
    if (!dl_read_at(t->fd, t->path, bytes, counts, *next, err)) return false;
    const uint64_t n = dlr_load(bytes, counts, t->big);
    int64_t at = *next + (int64_t)counts;
    if (n > MOST_FIELDS || (int64_t)(n * entry + offset) > t->size - at)
        return damaged(t, "a directory reaches beyond its end", err);
    for (uint64_t i = 0; i < n; i++, at += (int64_t)entry) {
        if (!dl_read_at(t->fd, t->path, bytes, entry, at, err)) return false;
        if (!take_field(arena, t, bytes, at, page, err)) return false;
    }
    if (!dl_read_at(t->fd, t->path, bytes, offset, at, err)) return false;
    *next = (int64_t)dlr_load(bytes, offset, t->big);
    if (page->tile_height <= 0 || (!page->tiled && page->tile_height > page->height))
        page->tile_height = page->height; /* one strip */
    if (!page->tiled) page->tile_width = page->width;
    return (page->width > 0 && page->height > 0 && page->width <= INT32_MAX &&
            page->height <= INT32_MAX && page->tile_width > 0 && page->tile_width <= INT32_MAX &&
            page->tile_height > 0 && page->tile_height <= INT32_MAX) ||
           damaged(t, "a page of it has no size", err);
}

/* ---- which pages are read ---- */

dlr_element dlr_tiff_element(const dlr_tiff_page *p) {
    const char kind = p->format == 3 ? 'f' : p->format == 2 ? 'i' : 'u';
    if (p->bits < 8 || p->bits % 8 || p->format < 1 || p->format > 4) return DLR_EL_NONE;
    return dlr_element_of(kind, (size_t)p->bits / 8);
}

/* A program may write one directory for many pages, whose number its text or a tag of its own has:
 * ImageJ beyond 4 GiB, tifffile where it is told to, MetaMorph always. */
static bool hides_pages(const dlr_tiff_page *p) {
    const char *images = p->text ? strstr(p->text, "images=") : NULL;
    return p->metamorph ||
           (images && strncmp(p->text, "ImageJ=", 7) == 0 && atoll(images + 7) > 1) ||
           (p->text && p->text[0] == '{' && strstr(p->text, "\"truncated\": true"));
}

const char *dlr_tiff_refuse(dl_arena *arena, const dlr_tiff_page *p, bool only) {
    const dlr_element type = dlr_tiff_element(p);
    const bool unpacked = dlr_tiff_unpacks(p->compression) && p->predictor >= 1 &&
                          p->predictor <= 3 && !(p->predictor == 2 && p->format == 3) &&
                          !(p->predictor == 3 && p->format != 3);
    return p->samples < 1 || p->samples > 65535 || p->planes < 1 || p->planes > 2
               ? "has samples in an order that TIFF does not know"
           : only && hides_pages(p) ? "has more pages than its directory"
           : p->depth != 1          ? "is a volume in one page, which is not read"
           : type == DLR_EL_NONE
               ? dl_format(
                     arena,
                     "has pixels of %lld bits of the sample format %lld, which are not read: 8 "
                     "to 64 bits, whole numbers and floats are",
                     (long long)p->bits, (long long)p->format)
           : unpacked
               ? NULL
               : dl_format(arena,
                           "is packed with TIFF's compression %lld and predictor %lld, which "
                           "are not read",
                           (long long)p->compression, (long long)p->predictor);
}

/* ---- pixels ---- */

/* Undoes a predictor on one row of a piece. */
static bool undo_row(const dlr_tiff *t, const dlr_tiff_page *p, unsigned char *row, int64_t width,
                     int64_t samples) {
    const size_t bytes = (size_t)p->bits / 8, n = (size_t)(width * samples), step = (size_t)samples;
    if (p->predictor == 2)
        for (size_t i = step; i < n; i++)
            dlr_store(row + i * bytes,
                      dlr_load(row + i * bytes, bytes, t->big) +
                          dlr_load(row + (i - step) * bytes, bytes, t->big),
                      bytes, t->big);
    if (p->predictor != 3) return true;
    /* differences of bytes, the first byte of every float, then the second, ..., highest first */
    unsigned char *planes = malloc(n * bytes);
    if (!planes) return false;
    for (size_t i = step; i < n * bytes; i++) row[i] = (unsigned char)(row[i] + row[i - step]);
    memcpy(planes, row, n * bytes);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < bytes; k++)
            row[i * bytes + (t->big ? k : bytes - 1 - k)] = planes[k * n + i];
    free(planes);
    return true;
}

/* Copies the part of a piece that lies within the page. */
static void place(const dlr_tiff_page *p, const unsigned char *piece, int64_t x, int64_t y,
                  int64_t rows, size_t pixel, unsigned char *plane) {
    const int64_t columns = p->width - x < p->tile_width ? p->width - x : p->tile_width;
    for (int64_t r = 0; r < rows; r++)
        memcpy(plane + (size_t)((y + r) * p->width + x) * pixel,
               piece + (size_t)(r * p->tile_width) * pixel, (size_t)columns * pixel);
}

static void turn_bits(unsigned char *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        at[i] = (unsigned char)((at[i] * 0x0202020202ULL & 0x010884422010ULL) % 1023);
}

static bool read_piece(const dlr_tiff *t, const dlr_tiff_page *p, int64_t index, size_t room,
                       size_t least, unsigned char *piece, dl_error *err) {
    int64_t at, bytes;
    if (!read_values(t, &p->offset, index, 1, &at, err) ||
        !read_values(t, &p->count, index, 1, &bytes, err))
        return false;
    if (at < 0 || bytes < 0 || bytes > MOST_PIECE || at > t->size || bytes > t->size - at)
        return damaged(t, "a strip or tile reaches beyond its end", err);
    unsigned char *packed = malloc((size_t)bytes + 1);
    if (!packed) return dl_fail(err, DL_RESOURCE, "no memory to read %s", t->path);
    bool ok = dl_read_at(t->fd, t->path, packed, (size_t)bytes, at, err);
    if (ok && p->bit_order == 2) turn_bits(packed, (size_t)bytes);
    if (ok && !dlr_tiff_unpack(p->compression, packed, (size_t)bytes, piece, room, least))
        ok = damaged(t, "a strip or tile does not unpack", err);
    free(packed);
    return ok;
}

bool dlr_tiff_pixels(const dlr_tiff *t, const dlr_tiff_page *p, void *out, dl_error *err) {
    const int64_t together = p->planes == 2 ? 1 : p->samples, planes = p->samples / together;
    const int64_t across = (p->width + p->tile_width - 1) / p->tile_width,
                  down = (p->height + p->tile_height - 1) / p->tile_height;
    const size_t pixel = (size_t)(together * p->bits / 8), row = (size_t)p->tile_width * pixel;
    if (row > MOST_PIECE || (int64_t)row * p->tile_height > MOST_PIECE)
        return damaged(t, "a strip or tile of it has more than 1 GiB", err);
    const size_t room = row * (size_t)p->tile_height;
    unsigned char *piece = malloc(room + 1);
    bool ok = piece || dl_fail(err, DL_RESOURCE, "no memory to read %s", t->path);
    for (int64_t i = 0; ok && i < planes * down * across; i++) {
        const int64_t plane = i / (down * across), y = i / across % down * p->tile_height,
                      x = i % across * p->tile_width;
        const int64_t rows = p->height - y < p->tile_height ? p->height - y : p->tile_height;
        const size_t least = p->tiled ? room : row * (size_t)rows;
        ok = read_piece(t, p, i, room, least, piece, err);
        for (int64_t r = 0; ok && r < rows; r++)
            ok = undo_row(t, p, piece + (size_t)r * row, p->tile_width, together) ||
                 dl_fail(err, DL_RESOURCE, "no memory to read %s", t->path);
        if (ok)
            place(p, piece, x, y, rows, pixel,
                  (unsigned char *)out + (size_t)(plane * p->width * p->height) * pixel);
    }
    free(piece);
    return ok;
}
