/* Models whose loss depends on how a step's samples are divided. */
#ifndef DL_RELATED_SAMPLES_H
#define DL_RELATED_SAMPLES_H
#include "compiler/session.h"

/* Adds a warning to the configuration's where several ranks, or the batches of a step (the key
 * accumulate), divide samples that the loss or a metric relates otherwise than by sums and means:
 * each part relates its own samples alone, and the numbers depend on the parts. Ranks add up sums
 * over samples, batches do not: another where the loss or a metric is a function of such sums that
 * batches change. m: the session's graphs, as built once more, which are lowered here; NULL:
 * nothing happens. */
void dl_warn_of_related(const dl_session *s, dl_module *m);
#endif
