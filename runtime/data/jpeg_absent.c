/* In the place of jpeg.c, in a build without libjpeg-turbo. */
#include "runtime/data/jpeg.h"

static bool fail(const char *name, dl_error *err) {
    return dl_fail(err, DL_RESOURCE,
                   "%s: this dlrun was built without libjpeg-turbo: meson setup -Djpeg=enabled",
                   name);
}

bool dlr_jpeg_decode(const unsigned char *bytes, size_t n, const char *name, int64_t height,
                     int64_t width, dlr_jpeg *out, dl_error *err) {
    (void)bytes, (void)n, (void)height, (void)width, (void)out;
    return fail(name, err);
}

bool dlr_jpeg_read(const char *path, int64_t height, int64_t width, dlr_jpeg *out, dl_error *err) {
    (void)height, (void)width, (void)out;
    return fail(path, err);
}

bool dlr_jpeg_check(const char *path, dl_error *err) { return fail(path, err); }
