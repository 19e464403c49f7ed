/* Models of several ranks whose loss relates samples to each other. */
#ifndef DL_RELATED_SAMPLES_H
#define DL_RELATED_SAMPLES_H
#include "compiler/session.h"

/* Adds a warning to the configuration's where the loss or a metric relates the samples of a batch
 * otherwise than by sums and means: then each rank relates its own samples alone, and the numbers
 * depend on the number of ranks. m: the session's graphs, as built once more, which are lowered
 * here; NULL: nothing happens. */
void dl_warn_of_related(const dl_session *s, dl_module *m);
#endif
