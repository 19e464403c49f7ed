#include "dldata/jpeg_file.h"
#include "dldata/jpeg_fault.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PIXELS = 1 << 26 };

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

static void note(j_common_ptr c, int level) { /* -1: damaged data that libjpeg conceals */
    jpeg_fault *f = (jpeg_fault *)c->err;
    if (level < 0 && c->err->num_warnings++ == 0) c->err->format_message(c, f->message);
}

unsigned char *jpeg_decode(dl_arena *arena, const char *path, const unsigned char *bytes, size_t n,
                           uint64_t dims[3], dl_buf *warning, dl_error *err) {
    struct jpeg_decompress_struct d;
    jpeg_fault f = {.message = ""};
    d.err = jpeg_std_error(&f.base);
    f.base.error_exit = jpeg_leave;
    f.base.emit_message = note;
    if (setjmp(f.away)) {
        dl_fail(err, DL_INPUT, "%s is a damaged JPEG file: %s", path, f.message);
        jpeg_destroy_decompress(&d);
        return NULL;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, bytes, n);
    jpeg_read_header(&d, TRUE);
    if (d.jpeg_color_space != JCS_CMYK && d.jpeg_color_space != JCS_YCCK)
        d.out_color_space = JCS_RGB;
    uint64_t width = d.image_width, height = d.image_height;
    /* Every block of 64 pixels takes at least one bit. */
    if (width * height > MOST_PIXELS || width * height / 512 > n + 1024) {
        jpeg_destroy_decompress(&d);
        dl_fail(err, DL_INPUT,
                "%s: a picture of %llux%llu points is more than is read here, or than it can hold",
                path, (unsigned long long)width, (unsigned long long)height);
        return NULL;
    }
    jpeg_start_decompress(&d);
    uint64_t channels = (uint64_t)d.output_components;
    unsigned char *planes = dl_alloc(arena, (size_t)(channels * width * height));
    JSAMPARRAY row =
        d.mem->alloc_sarray((j_common_ptr)&d, JPOOL_IMAGE, (JDIMENSION)(channels * width), 1);
    while (d.output_scanline < d.output_height) {
        uint64_t y = d.output_scanline;
        jpeg_read_scanlines(&d, row, 1);
        for (uint64_t i = 0; i < channels * width; i++)
            planes[(i % channels * height + y) * width + i / channels] = row[0][i];
    }
    jpeg_finish_decompress(&d);
    if (f.base.num_warnings) dl_putf(warning, "damaged, and guessed in part: %s", f.message);
    jpeg_destroy_decompress(&d);
    dims[0] = channels, dims[1] = height, dims[2] = width;
    return planes;
}
