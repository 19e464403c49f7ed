#include "runtime/image/png.h"

#include <stdlib.h>
#include <zlib.h>

enum { MAX_SIDE = 1 << 14 };

static void put_u32(uint8_t at[4], uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* length, type, data, CRC-32 of type and data */
static void put_chunk(dl_buf *out, const char *type, const uint8_t *data, size_t n) {
    uint8_t word[4];
    put_u32(word, (uint32_t)n);
    dl_putn(out, (char *)word, 4);
    dl_putn(out, type, 4);
    if (n) dl_putn(out, (const char *)data, n);
    uLong crc = crc32(0, (const Bytef *)type, 4);
    if (n) crc = crc32(crc, data, (uInt)n);
    put_u32(word, (uint32_t)crc);
    dl_putn(out, (char *)word, 4);
}

enum { FILTER_SUB = 1, FILTER_UP = 2 };

/* Chooses the filter "minus the left pixel" or "minus the pixel above" that has the smaller sum of
 * magnitudes: the heuristic that the standard advises. */
static void filter_row(const uint8_t *row, const uint8_t *above, size_t n, uint8_t *out) {
    long cost_sub = 0, cost_up = 0;
    for (size_t i = 0; i < n; i++) {
        cost_sub += abs((int8_t)(row[i] - (i >= 3 ? row[i - 3] : 0)));
        cost_up += abs((int8_t)(row[i] - (above ? above[i] : 0)));
    }
    *out++ = cost_sub <= cost_up ? FILTER_SUB : FILTER_UP;
    for (size_t i = 0; i < n; i++)
        out[i] = cost_sub <= cost_up ? (uint8_t)(row[i] - (i >= 3 ? row[i - 3] : 0))
                                     : (uint8_t)(row[i] - (above ? above[i] : 0));
}

bool dlr_png_encode(const dlr_image *image, dl_buf *out, dl_error *err) {
    if (image->width < 1 || image->height < 1 || image->width > MAX_SIDE ||
        image->height > MAX_SIDE)
        return dl_fail(err, DL_INPUT, "a picture of %d x %d pixels; 1 to %d a side are possible",
                       image->width, image->height, MAX_SIDE);
    size_t row = 3 * (size_t)image->width, rows = (size_t)image->height,
           raw_bytes = rows * (row + 1);
    uLongf packed_bytes = compressBound((uLong)raw_bytes);
    uint8_t *raw = malloc(raw_bytes), *packed = malloc(packed_bytes);
    bool ok = raw && packed;
    if (ok) {
        for (size_t y = 0; y < rows; y++)
            filter_row(image->rgb + y * row, y ? image->rgb + (y - 1) * row : NULL, row,
                       raw + y * (row + 1));
        ok = compress2(packed, &packed_bytes, raw, (uLong)raw_bytes, Z_DEFAULT_COMPRESSION) == Z_OK;
    }
    if (ok) {
        uint8_t header[13] = {0};
        put_u32(header, (uint32_t)image->width);
        put_u32(header + 4, (uint32_t)image->height);
        header[8] = 8,
        header[9] = 2; /* bits a channel; RGB; then deflate, filters, not interlaced: 0 */
        dl_putn(out, "\x89PNG\r\n\x1a\n", 8);
        put_chunk(out, "IHDR", header, sizeof header);
        put_chunk(out, "IDAT", packed, packed_bytes);
        put_chunk(out, "IEND", NULL, 0);
    } else
        dl_fail(err, DL_RESOURCE, "no memory to encode a picture of %d x %d pixels", image->width,
                image->height);
    free(raw);
    free(packed);
    return ok;
}
