/* A model's weights, wherever they are kept: in a file of tensors, in several files that an index
 * of Hugging Face's lists (model.safetensors.index.json), or in a checkpoint's folder. */
#ifndef DLR_WEIGHTS_H
#define DLR_WEIGHTS_H
#include "runtime/formats/stored.h"

typedef struct {
    const dlr_st_file *file; /* the tensors, names without what DLR_ST_STRIP drops */
    struct dlr_weights_private *private;
} dlr_weights;

/* Opens them; of a checkpoint all files are verified, and no other one is tried. Errors: those of
 * dlr_st_open, dlr_st_open_joined and dlr_checkpoint_open; DL_INPUT for a folder that is no
 * checkpoint, and for an index that is none. */
bool dlr_weights_open(const char *path, dlr_weights *weights, dl_error *err);
void dlr_weights_close(dlr_weights *weights); /* a zeroed one is fine */
#endif
