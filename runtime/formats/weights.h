/* Opens a model's weights: a file of tensors, several files that an index of Hugging Face lists
 * (model.safetensors.index.json), or a checkpoint's folder. */
#ifndef DLR_WEIGHTS_H
#define DLR_WEIGHTS_H
#include "runtime/formats/stored.h"

typedef struct {
    const dlr_st_file *file; /* the tensors, with names stripped by DLR_ST_STRIP */
    struct dlr_weights_private *private;
} dlr_weights;

/* All files of a checkpoint are verified, and no other checkpoint is tried. Errors: those of
 * dlr_st_open, dlr_st_open_joined and dlr_checkpoint_open; DL_INPUT for a folder that is no
 * checkpoint, and for a file that is no index. */
bool dlr_weights_open(const char *path, dlr_weights *weights, dl_error *err);
void dlr_weights_close(dlr_weights *weights); /* a zeroed one is fine */
#endif
