/* Compares the labels of training with those of validation. */
#ifndef DLR_ARRAY_DATASET_LABELS_H
#define DLR_ARRAY_DATASET_LABELS_H
#include "runtime/data/array_dataset.h"

/* Classes that validation has and training lacks: typical for a file sorted by class that is split
 * by ranges. */
typedef struct {
    int64_t n, of; /* the number of validation's classes that training lacks; the number of
                      validation's classes */
    int64_t first; /* the smallest class that training lacks */
    struct {       /* by part: the number of its classes, the samples of the rarest and of the most
                      frequent of these; 0 classes: not counted */
        int64_t classes, least, most;
    } part[2];
} dlr_array_dataset_unseen;

/* Finds them for array k, whose numbers are classes below `classes`. It reads the labels of both
 * parts, where they are one number per sample of an array dataset. For other data sets, and for
 * more than 2^20 classes, it finds nothing. The data sets must be open for use. Errors: those of
 * samples. */
bool dlr_array_dataset_unseen_classes(const dlr_dataset *train, const dlr_dataset *valid, int k,
                                      int64_t classes, dlr_array_dataset_unseen *found,
                                      dl_error *err);
#endif
