/* A data set, from a configuration's data keys and a model's types. */
#ifndef DLC_SAMPLES_H
#define DLC_SAMPLES_H
#include "compiler/session.h"
#include "runtime/data/dataset.h"

/* Where no data_loader_config is given, the keys that name the data choose one: a map of `data` the
 * files of one's own, train_data_path weather files, data_dir CIFAR-10's, train_dir class folders;
 * and `data: cifar10 | imagenet` sets, besides, what preset keras' code does to these pictures, as
 * far as keys do not say otherwise. */
bool dl_samples_settle(dl_config *config, dl_error *err);

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

/* Whether a device is to make samples of the files' numbers: data_loader_config dali or
 * dali-lowmem. */
bool dl_samples_by_device(const dl_config *config);
/* Whether it is to hold their numbers, too: dali. */
bool dl_samples_held(const dl_config *config);
/* The loader: data_loader_config; with these two those of the data that other keys name: a map
 * of `data`, data_dir, train_dir, a set that `data` names. */
const char *dl_samples_loader(const dl_config *config);

/* Recipe volumes' .npy files of inputs and targets, channels last, which data_loader_config:
 * dali-lowmem reads where all four are there: fills their paths, by split, and returns NULL. Else
 * the first that is missing, as its path or key, and what is read is train_path and val_path; ""
 * for other loaders, which never read them. */
const char *dl_samples_npy(dl_arena *arena, const dl_config *config, const char *path[2][2]);
#endif
