/* What `dlc check` says of a model file: all that compiling would refuse, without machine code. */
#ifndef DL_COMPILER_CHECK_H
#define DL_COMPILER_CHECK_H
#include "compiler/target/target.h"
#include "frontends/dl/front.h"

/* Reports the faults of a model file, and takes a model without any through the passes and the
 * emitter at the sizes that dl_model_check assumed. Ops that cannot be compiled yet are reported,
 * each at its place, in the order of the text. False: what compiling refuses for another reason, as
 * its error. */
bool dl_check_file(dl_arena *arena, const dl_source *source, const dl_target *target,
                   dl_diags *diags, dl_error *err);
#endif
