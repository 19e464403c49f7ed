/* The section `data: {inputs: ..., targets: ...}` of a configuration as options of the loader
 * (docs/guide/data.md). */
#ifndef DL_ARRAY_OPTIONS_H
#define DL_ARRAY_OPTIONS_H
#include "frontends/yaml/config.h"
#include "runtime/data/array_dataset.h"

/* The options for a model that takes `arrays`, in the arena, from such a value of `data`; samples
 * and limit are left 0. Errors: DL_INPUT or DL_USAGE at the place and key: what the section lacks,
 * has too much, or cannot be. */
bool dl_own_data_options(dl_arena *arena, const dl_yaml *section, const dlr_arrays *arrays,
                         dlr_array_dataset_options *out, dl_error *err);
#endif
