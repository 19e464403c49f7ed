/* Pictures: CIFAR-10's binary format (records of a label and 3 x 32 x 32 bytes), and JPEG by
 * libjpeg-turbo. */
#include "dldata/array.h"
#include "dldata/jpeg_file.h"
#include "ir/base/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE, CLASSES = 10 };
enum { MOST_BYTES = 1 << 30 };

/* Element e of an array is byte e % part of record e / part, after `offset` bytes; `element` is
 * part. */
static bool read_bytes(const array *a, const uint64_t *start, const uint64_t *size, double *out,
                       dl_error *err) {
    (void)err;
    const unsigned char *bytes = a->handle;
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

static void push(dl_arena *arena, array_file *f, array a, unsigned char *bytes) {
    a.type = "u8", a.numeric = true, a.count = 1;
    a.read = read_bytes, a.handle = bytes;
    for (int i = 0; i < a.rank; i++) a.count *= a.dims[i];
    if (!a.element) a.element = (int)a.count;
    dl_push(arena, &f->arrays, a);
}

bool image_open(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    size_t n;
    if (f->bytes > MOST_BYTES)
        return dl_fail(err, DL_INPUT,
                       "%s is neither an HDF5 file, a .npy file nor a file of pictures", path);
    unsigned char *bytes = (unsigned char *)dl_read_file(arena, path, MOST_BYTES, &n, err);
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
        unsigned char *planes = jpeg_decode(arena, path, bytes, n, a.dims + 1, &warning, err);
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
