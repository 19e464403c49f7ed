/* Opens a data set by a configuration's data keys and the types of a model's inputs and targets. */
#ifndef DL_DATASET_OPTIONS_H
#define DL_DATASET_OPTIONS_H
#include "compiler/session.h"
#include "runtime/data/picture.h"
#include "runtime/setup/dataset_choice.h"

/* The model's arrays: inputs, then targets, each without N. Errors: dlr_arrays_add's. */
bool dl_samples_arrays(const dl_session *s, dlr_arrays *arrays, dl_error *err);

/* Opens the data set of a session whose graphs are as the front end built them; `opening` as in
 * dataset.h. Errors: those of the loader; DL_INPUT for a model that it does not serve; DL_USAGE or
 * DL_INPUT at the key for too few samples. */
dlr_dataset *dl_samples_open(dl_arena *arena, const dl_session *s, dlr_split split,
                             dlr_opening opening, dl_error *err);

/* How the configuration's pictures are scaled (image_scaling). */
dlr_scaling dl_samples_scaling(const dl_config *config);

/* Sets Nsamples or Nsamples_val to the number of samples in the files of an array dataset, so that
 * the run's recorded configuration gives the same run. */
bool dl_samples_count(dl_config *config, dlr_split split, const dlr_dataset *d, dl_error *err);

/* For data_loader_config dali-lowmem: preset volumes' four .npy files of inputs and targets,
 * channels last. Fills their paths by split and returns NULL where all four exist. Otherwise
 * returns the first missing path or key, and train_path and val_path are read; "" for other
 * loaders, which never read .npy files of this kind. */
const char *dl_samples_npy(dl_arena *arena, const dl_config *config, const char *path[2][2]);
#endif
