/* What a configuration says of data, and a model of its types, as the options of a data set. */
#ifndef DLC_SAMPLES_H
#define DLC_SAMPLES_H
#include "compiler/session.h"
#include "runtime/data/dataset.h"

/* Of a session whose graphs are as the front end built them. Errors: DL_INPUT for a model of more than one
 * input and target, or one that the loader does not serve; DL_USAGE or DL_INPUT at the key for too few
 * samples or a loader that is not in this version. */
bool dl_samples_options(dl_arena *arena, const dl_session *s, dlr_split split, dlr_dataset_options *o,
                        dl_error *err);
#endif
