/* JPEG pictures, by libjpeg-turbo. */
#ifndef DLDATA_JPEG_FILE_H
#define DLDATA_JPEG_FILE_H
#include "ir/base/str.h"

/* Appends rgb[height][width][3] as a JPEG file (baseline, chroma at half the resolution) of a
 * quality from 1 to 100 to `out`. Errors: DL_RESOURCE. */
bool jpeg_encode(const unsigned char *rgb, int width, int height, int quality, dl_buf *out,
                 dl_error *err);
#endif
