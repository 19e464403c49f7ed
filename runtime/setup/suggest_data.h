/* A section `data:` of one's own for a model, from what files hold: for `dldata inspect FILE...
 * MODEL.dl`. */
#ifndef DL_SUGGEST_DATA_H
#define DL_SUGGEST_DATA_H
#include "ir/base/str.h"

/* Appends the section as YAML, with what it is taken from in remarks: for each input and target of
 * the model, at the sizes of its own configuration file or its defaults, the array that fits best
 * by shape and name and what of its sizes does not fit; or that none has such axes. Text from the
 * files is as they have it. Errors: those of the model, and DL_IO, DL_INPUT of the files. */
bool dl_suggest_data(const char *model, const char *const *files, int n_files, dl_buf *out,
                     dl_error *err);
#endif
