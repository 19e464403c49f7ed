/* JPEG files as pictures, by libjpeg-turbo; what they hold may be anything.
 *
 * Decoding is scaled by 1/2, 1/4 or 1/8 where the picture stays at least as large as is asked for.
 * Gray, RGB, YCbCr, CMYK and YCCK (as Adobe's programs write them, inverted) become RGB;
 * orientation by EXIF is not followed. */
#ifndef DLR_JPEG_H
#define DLR_JPEG_H
#include "ir/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DLR_JPEG_MOST_BYTES = 1 << 26, /* of a file */
    DLR_JPEG_MOST_PIXELS = 1 << 26,
    DLR_JPEG_MOST_SCANS =
        500 /* of a progressive file, each of which may cost as much as a picture */
};

typedef struct {
    int64_t height, width;
    unsigned char *rgb; /* [height][width][3]; free() */
} dlr_jpeg;

/* Decodes to at least height x width where the file has as much. `name` is for errors. Errors:
 * DL_INPUT (no JPEG, damaged or cut short, beyond the limits above), DL_RESOURCE (memory). */
bool dlr_jpeg_decode(const unsigned char *bytes, size_t n, const char *name, int64_t height,
                     int64_t width, dlr_jpeg *out, dl_error *err);
/* The same of a file. Errors: DL_IO, too. */
bool dlr_jpeg_read(const char *path, int64_t height, int64_t width, dlr_jpeg *out, dl_error *err);
/* Looks only whether it begins as a JPEG file does, up to its picture. */
bool dlr_jpeg_check(const char *path, dl_error *err);

/* A part of the picture in its place: rows top .. top + height - 1, columns left .. left + width -
 * 1, all within it. */
void dlr_jpeg_crop(dlr_jpeg *picture, int64_t top, int64_t left, int64_t height, int64_t width);

/* A picture as planes[3][height][width] of 0 to 255: each point a mean of those around its place,
 * weighted by a triangle two points of the coarser picture wide (as
 * torch.nn.functional.interpolate, bilinear, antialias=True). Errors: DL_RESOURCE. */
bool dlr_jpeg_resize(const dlr_jpeg *from, int64_t height, int64_t width, float *planes,
                     dl_error *err);
#endif
