/* CIFAR-10's binary format: records of a label, 0 to 9, and 3 x 32 x 32 bytes, the planes of red,
 * green and blue.
 *
 * Training reads data_batch_*.bin of a folder in the order of their names, validation
 * test_batch.bin; the records that are used are held in memory.
 * https://www.cs.toronto.edu/~kriz/cifar.html */
#ifndef DLR_CIFAR_H
#define DLR_CIFAR_H
#include "runtime/data/picture.h"

enum {
    DLR_CIFAR_SIDE = 32,
    DLR_CIFAR_PLANES = 3 * DLR_CIFAR_SIDE * DLR_CIFAR_SIDE,
    DLR_CIFAR_RECORD = 1 + DLR_CIFAR_PLANES
};
/* All records of a file, and how many they are; free(). Errors (NULL): DL_IO; DL_INPUT for a file
 * that holds no whole records, and labels beyond 9; DL_RESOURCE. */
unsigned char *dlr_cifar_read(const char *path, int64_t *n, dl_error *err);

typedef struct {
    const char *folder; /* data_dir */
    dlr_picture_options pictures;
} dlr_cifar_options;

extern const dlr_loader dlr_cifar_loader;
#endif
