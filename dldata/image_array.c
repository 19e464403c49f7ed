/* Pictures: CIFAR-10's binary format (records of a label and 3 x 32 x 32 bytes), and JPEG by
 * libjpeg-turbo. */
#include "dldata/array.h"
#include "dldata/jpeg_fault.h"
#include "ir/base/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE, CLASSES = 10 };
enum { MOST_BYTES = 1 << 30, MOST_PIXELS = 1 << 26 };

/* Element e of an array is byte e % part of record e / part, after `offset` bytes; `element` is
 * part. */
static bool read_bytes(const array *a, const uint64_t *start, const uint64_t *size, double *out,
                       dl_error *err) {
    (void)err;
    const unsigned char *bytes = (const unsigned char *)(intptr_t)a->handle;
    uint64_t first = 0, n = 1, part = (uint64_t)a->element;
    for (int i = 0; i < a->rank; i++) first = first * a->dims[i] + start[i], n *= size[i];
    for (uint64_t i = 0; i < n; i++)
        out[i] = bytes[(first + i) / part * RECORD + a->offset + (first + i) % part];
    return true;
}

static bool is_cifar(const unsigned char *bytes, size_t n) {
    if (n == 0 || n % RECORD) return false;
    for (size_t i = 0; i < n; i += RECORD)
        if (bytes[i] >= CLASSES) return false;
    return true;
}

static void push(dl_arena *arena, array_file *f, array a, const unsigned char *bytes) {
    a.type = "u8", a.numeric = true, a.count = 1;
    a.read = read_bytes, a.handle = (int64_t)(intptr_t)bytes;
    for (int i = 0; i < a.rank; i++) a.count *= a.dims[i];
    if (!a.element) a.element = (int)a.count;
    dl_push(arena, &f->arrays, a);
}

static void note(j_common_ptr c, int level) { /* -1: damaged data that libjpeg conceals */
    jpeg_fault *f = (jpeg_fault *)c->err;
    if (level < 0 && c->err->num_warnings++ == 0) c->err->format_message(c, f->message);
}

/* Decodes to planes in the arena. */
static unsigned char *decode(dl_arena *arena, const char *path, const unsigned char *bytes,
                             size_t n, uint64_t dims[3], dl_buf *warning, dl_error *err) {
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

bool image_open(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    size_t n;
    if (f->bytes > MOST_BYTES)
        return dl_fail(err, DL_INPUT,
                       "%s is neither an HDF5 file, a .npy file nor a file of pictures", path);
    const unsigned char *bytes =
        (const unsigned char *)dl_read_file(arena, path, MOST_BYTES, &n, err);
    if (!bytes) return false;
    if (is_cifar(bytes, n)) {
        f->format = "pictures in CIFAR-10's binary layout";
        push(arena, f,
             (array){.name = "label",
                     .storage = "first byte of each record of 3073",
                     .rank = 1,
                     .dims = {n / RECORD},
                     .element = 1},
             bytes);
        push(arena, f,
             (array){.name = "picture",
                     .storage = "the other bytes: red, green, blue",
                     .rank = 4,
                     .offset = 1,
                     .dims = {n / RECORD, 3, SIDE, SIDE},
                     .element = 3 * PLANE},
             bytes);
        return true;
    }
    if (n > 3 && !memcmp(bytes, "\xff\xd8\xff", 3)) {
        array a = {.name = "picture", .storage = "JPEG", .rank = 4, .dims = {1}};
        dl_buf warning = {0};
        unsigned char *planes = decode(arena, path, bytes, n, a.dims + 1, &warning, err);
        if (planes && warning.n) dl_push(arena, &f->attributes, dl_strdup(arena, warning.at));
        dl_buf_free(&warning);
        f->format = "JPEG picture";
        if (planes) push(arena, f, a, planes);
        return planes != NULL;
    }
    return dl_fail(
        err, DL_INPUT,
        "%s is neither an HDF5 file, a .npy file, a JPEG file nor one in CIFAR-10's binary layout",
        path);
}
