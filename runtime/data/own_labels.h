/* Labels of training next to those of validation. */
#ifndef DLR_OWN_LABELS_H
#define DLR_OWN_LABELS_H
#include "runtime/data/own.h"

/* Classes that validation has and training has not: a file sorted by class that is split by ranges.
 */
typedef struct {
    int64_t n,
        of; /* how many of validation's classes training lacks; how many classes validation has */
    int64_t first; /* the least of these */
} dlr_own_unseen;

/* Of array k, whose numbers are classes below `classes`. Reads the labels of both parts, where they
 * are one number a sample of data of one's own; else, and of more than 2^20 classes, nothing is
 * found. The data sets are open for use. Errors: those of samples. */
bool dlr_own_unseen_classes(const dlr_dataset *train, const dlr_dataset *valid, int k,
                            int64_t classes, dlr_own_unseen *found, dl_error *err);
#endif
