#include "dldata/jpeg_file.h"
#include "dldata/jpeg_fault.h"

#include <stdio.h>
#include <stdlib.h>

static void keep_quiet(j_common_ptr c) { (void)c; }

bool jpeg_encode(const unsigned char *rgb, int width, int height, int quality, dl_buf *out,
                 dl_error *err) {
    struct jpeg_compress_struct c;
    jpeg_fault f;
    unsigned char *bytes = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&f.base);
    f.base.error_exit = jpeg_leave;
    f.base.output_message = keep_quiet;
    if (setjmp(f.away)) {
        jpeg_destroy_compress(&c);
        free(bytes);
        return dl_fail(err, DL_RESOURCE, "libjpeg could not make a picture of %dx%d: %s", width,
                       height, f.message);
    }
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &n);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)(size_t)(rgb + (size_t)c.next_scanline * (size_t)width * 3);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    dl_putn(out, (const char *)bytes, n);
    free(bytes);
    return true;
}
