/* A data set, from a configuration's data keys and a model's types. */
#ifndef DL_DATASET_OPTIONS_H
#define DL_DATASET_OPTIONS_H
#include "compiler/session.h"
#include "runtime/data/dataset.h"
#include "runtime/setup/dataset_choice.h"

/* The model's arrays: inputs, then targets, each without N. Errors: dlr_arrays_add's. */
bool dl_samples_arrays(const dl_session *s, dlr_arrays *arrays, dl_error *err);

/* Opens the data set of a session whose graphs are as the front end built them; `opening` as in
 * dataset.h. Errors: those of the loader; DL_INPUT for a model that it does not serve; DL_USAGE or
 * DL_INPUT at the key for too few samples. */
dlr_dataset *dl_samples_open(dl_arena *arena, const dl_session *s, dlr_split split,
                             dlr_opening opening, dl_error *err);

/* An array dataset's files say how many samples there are: sets Nsamples or Nsamples_val to
 * it, so that what a run records of itself can be run again. */
bool dl_samples_count(dl_config *config, dlr_split split, const dlr_dataset *d, dl_error *err);

/* Recipe volumes' .npy files of inputs and targets, channels last, which data_loader_config:
 * dali-lowmem reads where all four are there: fills their paths, by split, and returns NULL. Else
 * the first that is missing, as its path or key, and what is read is train_path and val_path; ""
 * for other loaders, which never read them. */
const char *dl_samples_npy(dl_arena *arena, const dl_config *config, const char *path[2][2]);
#endif
