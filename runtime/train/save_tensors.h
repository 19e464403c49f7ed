/* Files of tensors that a run writes in addition to its checkpoints: save_grads and save_weights.
 */
#ifndef DLR_SAVE_TENSORS_H
#define DLR_SAVE_TENSORS_H
#include "runtime/train/train_ranks.h"

/* Write tensors of all ranks to the file `path` (NULL: nothing is done), by rank 0; values that are
 * not finite are reported in the log, and written all the same. Errors: those of dlr_st_write. */
/* The gradients of the step just run. Errors: DL_INTERNAL of a plan that does not keep them. */
bool dlr_save_gradients(dlr_exec *exec, int program, const dlr_run_ranks *ranks, const char *path,
                        dl_error *err);
/* Parameters and buffers. */
bool dlr_save_weights(dlr_exec *exec, const dlr_run_ranks *ranks, const char *path, dl_error *err);
#endif
