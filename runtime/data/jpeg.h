/* Decodes untrusted JPEG files by libjpeg-turbo.
 *
 * Decoding is scaled by 1/2, 1/4 or 1/8 where the picture stays at least as large as requested.
 * Gray, RGB, YCbCr, CMYK and YCCK (inverted, as Adobe's programs write them) become RGB; the EXIF
 * orientation is ignored. */
#ifndef DLR_JPEG_H
#define DLR_JPEG_H
#include "ir/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DLR_JPEG_MOST_BYTES = 1 << 26, /* of a file */
    DLR_JPEG_MOST_PIXELS = 1 << 26,
    /* most scans of a progressive file, each of which may cost as much as a picture */
    DLR_JPEG_MOST_SCANS = 500
};

typedef struct {
    int64_t height, width;
    unsigned char *rgb; /* [height][width][3]; free() */
} dlr_jpeg;

/* Decodes to at least height x width where the file has that resolution. `name` is for errors.
 * Errors: DL_INPUT (no JPEG, damaged or cut short, beyond the limits above), DL_RESOURCE
 * (memory). */
bool dlr_jpeg_decode(const unsigned char *bytes, size_t n, const char *name, int64_t height,
                     int64_t width, dlr_jpeg *out, dl_error *err);
/* The same of a file. Errors: DL_IO, too. */
bool dlr_jpeg_read(const char *path, int64_t height, int64_t width, dlr_jpeg *out, dl_error *err);
/* Checks only the header of a file, up to its picture. */
bool dlr_jpeg_check(const char *path, dl_error *err);

/* Crops the picture in place to rows top .. top + height - 1, columns left .. left + width - 1, all
 * within it. */
void dlr_jpeg_crop(dlr_jpeg *picture, int64_t top, int64_t left, int64_t height, int64_t width);

/* Resizes a picture to planes[3][height][width] of 0 to 255. Each pixel is a weighted mean of those
 * around it: the weights are a triangle, two pixels of the coarser picture wide (as
 * torch.nn.functional.interpolate, bilinear, antialias=True). Errors: DL_RESOURCE. */
bool dlr_jpeg_resize(const dlr_jpeg *from, int64_t height, int64_t width, float *planes,
                     dl_error *err);
#endif
