/* Pictures: JPEG files and CIFAR-10's binary layout, as dldata describes and as the loaders read
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dldata/array.h"
#include "runtime/data/cifar.h"
#include "runtime/data/jpeg.h"
#include "tests/fuzz/fuzz.h"

/* Scaled down and up; whatever is a picture has the size that was asked for after that. */
static void decode(const uint8_t *data, size_t n) {
    static const int sizes[][2] = {{3, 2}, {20, 31}};
    for (int i = 0; i < 2; i++) {
        dl_error err = {0};
        dlr_jpeg picture;
        float planes[3 * 20 * 31];
        if (!dlr_jpeg_decode(data, n, "a.jpg", sizes[i][0], sizes[i][1], &picture, &err)) {
            FUZZ_CHECK(err.code == DL_INPUT && strstr(err.message, "a.jpg"));
            continue;
        }
        FUZZ_CHECK(dlr_jpeg_resize(&picture, sizes[i][0], sizes[i][1], planes, &err));
        for (int k = 0; k < 3 * sizes[i][0] * sizes[i][1]; k++)
            FUZZ_CHECK(planes[k] >= 0 && planes[k] < 255.01f);
        free(picture.rgb);
    }
}

/* The records of a file as validation's samples. */
static void read_records(const uint8_t *data, size_t n) {
    char folder[300];
    const char *file = fuzz_file(data, n);
    dlr_arrays arrays = {0};
    dl_error err = {0};
    dl_type x = dl_scalar(DL_F32), t = dl_scalar(DL_I32);
    dl_type_push(&x, "N", 1), dl_type_push(&x, "C", 3), dl_type_push(&x, "H", 32),
        dl_type_push(&x, "W", 32);
    dl_type_push(&t, "N", 1);
    FUZZ_CHECK(dlr_arrays_add(&arrays, "x", false, &x, &err) &&
               dlr_arrays_add(&arrays, "t", true, &t, &err));
    snprintf(folder, sizeof folder, "%s.folder", file);
    mkdir(folder, 0700);
    char path[320];
    snprintf(path, sizeof path, "%s/test_batch.bin", folder);
    FUZZ_CHECK(link(file, path) == 0);
    dlr_cifar_options o = {.folder = folder};
    dlr_dataset *d = dlr_dataset_open(
        &dlr_cifar_loader, &o,
        &(dlr_dataset_options){DLR_VALID, 0, &arrays, false, DLR_OPEN_FOR_USE}, &err);
    FUZZ_CHECK(d || err.code == DL_INPUT);
    for (int64_t i = 0; d && i < dlr_dataset_samples(d); i++) {
        static _Alignas(64) char scratch[1 << 15];
        static float planes[3 * 32 * 32];
        int32_t label = -1;
        FUZZ_CHECK(dlr_dataset_sample(d, 0, i, (void *[]){planes, &label}, scratch, &err) &&
                   label >= 0 && label < 10);
    }
    dlr_dataset_close(d);
    unlink(path), rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    decode(data, n);
    read_records(data, n);
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    array_file f = {.bytes = n};
    bool ok = image_open(arena, fuzz_file(data, n), &f, &err);
    FUZZ_CHECK(ok ? f.arrays.n > 0 : err.code == DL_INPUT);
    for (int i = 0; ok && i < f.arrays.n; i++) {
        const array *a = &f.arrays.at[i];
        double *out = malloc((a->count + 1) * sizeof *out);
        uint64_t start[ARRAY_MAX_RANK] = {0};
        FUZZ_CHECK(out && a->read(a, start, a->dims, out, &err));
        free(out);
    }
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    return n > 3 ? 3 + fuzz_mutate_bytes(data + 3, n - 3, max - 3, &r) : n;
}
