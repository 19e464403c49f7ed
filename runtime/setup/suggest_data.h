/* Suggests a section `data:` for a model from the arrays in files: `dldata inspect FILE...
 * MODEL.dl`. */
#ifndef DL_SUGGEST_DATA_H
#define DL_SUGGEST_DATA_H
#include "ir/base/str.h"

/* Appends the section as YAML, with remarks that say where each entry comes from. For each input
 * and target, at the sizes of the model's configuration file or its defaults, it has the array that
 * fits best by shape and name, with the sizes that do not fit; or a remark that no array has such
 * axes. Names from the files are not escaped. Errors: those of the model; DL_IO and
 * DL_INPUT of the files. */
bool dl_suggest_data(const char *model, const char *const *files, int n_files, dl_buf *out,
                     dl_error *err);
#endif
