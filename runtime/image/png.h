/* Pictures as PNG files (ISO/IEC 15948): 8 bits a channel, RGB, compressed by zlib. */
#ifndef DLR_PNG_H
#define DLR_PNG_H
#include "ir/base/str.h"

/* Rows from top to bottom, three bytes a pixel, no padding. */
typedef struct {
    int width, height;
    uint8_t *rgb;
} dlr_image;

/* Appends the whole file's bytes to `out` (binary: use out->n). Equal pictures give equal bytes.
 * Errors: DL_RESOURCE without memory; DL_INPUT for a picture of 0 or more than 2^14 pixels a
 * side. */
bool dlr_png_encode(const dlr_image *image, dl_buf *out, dl_error *err);
#endif
