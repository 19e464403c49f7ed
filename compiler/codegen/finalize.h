/* Finalizing loop nests: a work item combines the partial results that other items have left in
 * the workspace, in a fixed order and in double; then it runs the instructions that need them. */
#ifndef DL_FINALIZE_H
#define DL_FINALIZE_H
#include "compiler/codegen/loops.h"

/* Prints the present nest, of so many threads a work item; returns the number of its items. */
int64_t dl_emit_finalize(dl_emitter *e, int threads);
#endif
