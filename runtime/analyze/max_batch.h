/* The largest batch whose training step fits into a given amount of memory. */
#ifndef DL_MAX_BATCH_H
#define DL_MAX_BATCH_H
#include "compiler/subcommand.h"

/* Prints it for each amp_mode of the model that `call` names. memory: a size, as "8GiB". Errors:
 * DL_USAGE for a text that is no size; those of compiling. */
bool dl_print_max_batch(const dl_invocation *call, const char *memory, bool json, dl_error *err);
#endif
