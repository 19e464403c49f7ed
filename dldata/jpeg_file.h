/* JPEG pictures, by libjpeg-turbo. */
#ifndef DLDATA_JPEG_FILE_H
#define DLDATA_JPEG_FILE_H
#include <stdint.h>

#include "ir/base/str.h"

/* Appends rgb[height][width][3] as a JPEG file (baseline, chroma at half the resolution) of a
 * quality from 1 to 100 to `out`. Errors: DL_RESOURCE. */
bool jpeg_encode(const unsigned char *rgb, int width, int height, int quality, dl_buf *out,
                 dl_error *err);
/* Decodes a file's bytes to planes [dims[0]][dims[1]][dims[2]] in the arena, and appends to
 * `warning` where libjpeg guessed what is damaged. NULL: DL_INPUT, for damage or too many points.
 */
unsigned char *jpeg_decode(dl_arena *arena, const char *path, const unsigned char *bytes, size_t n,
                           uint64_t dims[3], dl_buf *warning, dl_error *err);
#endif
