/* CIFAR-10's binary format: records of a label, 0 to 9, and 3 x 32 x 32 bytes, the planes of red,
 * green and blue.
 *
 * Training reads data_batch_*.bin of a folder in the order of their names, validation
 * test_batch.bin; the records that are used are held in memory.
 * https://www.cs.toronto.edu/~kriz/cifar.html */
#ifndef DLR_CIFAR_H
#define DLR_CIFAR_H
#include "runtime/data/picture.h"

typedef struct {
    const char *folder; /* data_dir */
    dlr_picture_options pictures;
} dlr_cifar_options;

extern const dlr_loader dlr_cifar_loader;
#endif
