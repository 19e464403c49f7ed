/* Whether a file that exists may be replaced by what a command makes. */
#ifndef DLDATA_TARGET_H
#define DLDATA_TARGET_H
#include "ir/base/status.h"

/* An older file goes only when this command made it (its root attribute `generator` says so), or
 * with `force`. Errors: DL_USAGE. */
bool target_check(const char *path, const char *generator, bool force, dl_error *err);
#endif
