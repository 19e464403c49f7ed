/* Chooses the loader from a configuration's keys, without opening files. */
#ifndef DLC_DATASET_CHOICE_H
#define DLC_DATASET_CHOICE_H
#include "frontends/yaml/config.h"

/* Whether `data` is a map, which describes the user's own arrays. */
bool dl_own_data_given(const dl_config *config);
/* Sets the keys that follow from others where data_loader_config is absent. A map in `data` chooses
 * the array dataset, train_data_path weather files, data_dir CIFAR-10's files, train_dir class
 * folders. `data: cifar10` and `data: imagenet` also set what preset keras' program does to these
 * pictures, unless keys say otherwise. Errors: DL_USAGE. */
bool dl_samples_resolve(dl_config *config, dl_error *err);

/* Whether the device computes samples from the files' numbers: data_loader_config dali or
 * dali-lowmem. */
bool dl_samples_by_device(const dl_config *config);
/* Whether the data set is also kept in the device's memory: data_loader_config dali. */
bool dl_samples_held(const dl_config *config);
/* The loader's name: that of data_loader_config; for dali and dali-lowmem, and where the key is
 * absent, the loader of the data that other keys name (a map of `data`, data_dir, train_dir, a name
 * in `data`). */
const char *dl_samples_loader(const dl_config *config);
#endif
