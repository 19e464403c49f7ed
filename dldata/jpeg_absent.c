/* In the place of jpeg_file.c, in a build without libjpeg-turbo. */
#include "dldata/jpeg_file.h"

static const char why[] = "this dldata was built without libjpeg-turbo: meson setup -Djpeg=enabled";

bool jpeg_encode(const unsigned char *rgb, int width, int height, int quality, dl_buf *out,
                 dl_error *err) {
    (void)rgb, (void)width, (void)height, (void)quality, (void)out;
    return dl_fail(err, DL_RESOURCE, "no JPEG file can be written: %s", why);
}

unsigned char *jpeg_decode(dl_arena *arena, const char *path, const unsigned char *bytes, size_t n,
                           uint64_t dims[3], dl_buf *warning, dl_error *err) {
    (void)arena, (void)bytes, (void)n, (void)dims, (void)warning;
    return dl_fail(err, DL_RESOURCE, "%s is a JPEG file: %s", path, why), NULL;
}
