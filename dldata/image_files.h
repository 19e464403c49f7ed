/* Writes labelled pictures (scene.h) in the two common file formats of image models.
 *
 * CIFAR-10's binary format: data_batch_1.bin to data_batch_5.bin and test_batch.bin, records of a
 * label and 3 x 32 x 32 bytes, red, green, blue; batches.meta.txt, one class name per line. Class
 * folders: train/CLASS/NUMBER.jpg and val/CLASS/NUMBER.jpg, of varying sizes. */
#ifndef DLDATA_IMAGE_FILES_H
#define DLDATA_IMAGE_FILES_H
#include "ir/base/status.h"
#include <stdint.h>

typedef struct {
    int train, valid; /* pictures; train must be a multiple of 5 for CIFAR-10's format */
    int side;         /* of class folders: the mean length of the shorter side, pixels */
    int threads;
    uint64_t seed;
    bool jpeg;
} image_setup;

/* Bytes on disk, slightly overestimated. */
uint64_t image_bytes(const image_setup *s);
/* Size of a picture of a class folder. */
void image_size(const image_setup *s, uint32_t split, uint32_t number, int *width, int *height);
/* Called after every few pictures; returns false to stop. */
typedef bool image_watch(void *ctx, long long done, long long all);
/* Writes the directory atomically. False with err->code DL_OK when `watch` (may be NULL) stopped
 * it. Errors: DL_USAGE, DL_IO, DL_RESOURCE. */
bool image_write(const char *path, const image_setup *s, image_watch *watch, void *ctx,
                 dl_error *err);
#endif
