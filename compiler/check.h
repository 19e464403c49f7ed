/* `dlc check`: reports everything that compiling a model file would refuse, without making
 * machine code. */
#ifndef DL_COMPILER_CHECK_H
#define DL_COMPILER_CHECK_H
#include "compiler/target/target.h"
#include "frontends/dl/front.h"

/* Reports the faults of a model file. A model without faults then goes through the passes and
 * the emitter, at the sizes that dl_model_check assumed. Ops that cannot be compiled yet are
 * reported in the order of the text. False: compiling refuses the model for another reason,
 * which is in err. */
bool dl_check_file(dl_arena *arena, const dl_source *source, const dl_target *target,
                   dl_diags *diags, dl_error *err);
#endif
