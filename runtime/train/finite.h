/* Checks that losses and values are finite; a run ends with an error otherwise. */
#ifndef DLR_FINITE_H
#define DLR_FINITE_H
#include "runtime/formats/checkpoint.h"

/* Fails with DL_NUMERIC for a loss of the step that the run is at. what: "training", "validation";
 * where: the rest of the message, the op that made it. */
bool dlr_finite_fail(const dlr_state *at, const char *what, double loss, const char *where,
                     dl_error *err);
/* Checks what a watched run of a program found (NULL: nothing). A step that a loss scaler skips may
 * have such values. Errors: DL_NUMERIC. */
bool dlr_finite_check_found(const dlr_state *at, const char *what, const char *found, bool skipped,
                            dl_error *err);
#endif
