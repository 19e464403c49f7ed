/* Whether a command's output may replace an existing file. */
#ifndef DLDATA_TARGET_H
#define DLDATA_TARGET_H
#include "ir/base/status.h"

/* An older file is replaced only if this command made it (its root attribute `generator` names it),
 * or with `force`. Errors: DL_USAGE. */
bool target_check(const char *path, const char *generator, bool force, dl_error *err);
#endif
