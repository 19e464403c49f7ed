/* Checks the key `resume` before anything is compiled. */
#ifndef DLC_RESUME_H
#define DLC_RESUME_H
#include "frontends/yaml/config.h"

/* Whether a run of so many ranks can go on as it is asked to: where a directory is named, that
 * something is there; where none is and the run's own has no checkpoint, that no other number of
 * ranks left one next to it, and no earlier version one of this model in another directory: such
 * must have been meant. Errors: DL_INPUT, DL_IO; DL_USAGE naming the other directory. */
bool dl_resume_check(dl_arena *arena, const dl_config *c, int ranks, dl_error *err);
#endif
