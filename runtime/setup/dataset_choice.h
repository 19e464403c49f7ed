/* Which loader a configuration's keys choose; opens nothing. */
#ifndef DLC_DATASET_CHOICE_H
#define DLC_DATASET_CHOICE_H
#include "frontends/yaml/config.h"

/* Whether `data` describes data of one's own. */
bool dl_own_data_given(const dl_config *config);
/* Where no data_loader_config is given, the keys that name the data choose one: a map of `data` the
 * files of one's own, train_data_path weather files, data_dir CIFAR-10's, train_dir class folders;
 * and `data: cifar10 | imagenet` sets, besides, what preset keras' code does to these pictures, as
 * far as keys do not say otherwise. */
bool dl_samples_resolve(dl_config *config, dl_error *err);

/* Whether a device is to make samples of the files' numbers: data_loader_config dali or
 * dali-lowmem. */
bool dl_samples_by_device(const dl_config *config);
/* Whether it is to hold their numbers, too: dali. */
bool dl_samples_held(const dl_config *config);
/* The loader: data_loader_config; with these two those of the data that other keys name: a map
 * of `data`, data_dir, train_dir, a set that `data` names. */
const char *dl_samples_loader(const dl_config *config);
#endif
