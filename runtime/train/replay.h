/* The batches of a file as a data set, as `dlrun --replay` takes them: for each variable NAME of
 * role input or target the tensors NAME.0, NAME.1, ... Sample numbers are such that each rank's
 * ring of batches (prefetch.h) gives it its part of each batch's samples (axis N), in the file's
 * order. */
#ifndef DLR_REPLAY_H
#define DLR_REPLAY_H
#include "runtime/data/dataset.h"
#include "runtime/train/train_ranks.h"

/* Checks names, shapes and types of all batches before the first is used; an epoch is all of them.
 * Errors: DL_IO, DL_INPUT (saying which tensor is missing or wrong), DL_RESOURCE. */
dlr_dataset *dlr_replay_open(const char *path, const dlr_exec *exec, const dlr_run_ranks *ranks,
                             dl_error *err);
#endif
