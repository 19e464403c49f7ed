/* How a contraction's numbers and operands are put together, step by step: by names
 * (emit_operands.c) and by windows (emit_geometry.c). */
#ifndef DL_CUDA_OPERANDS_H
#define DL_CUDA_OPERANDS_H
#include "compiler/cuda/emit_tiles.h"

/* One more coordinate that a number counts, the innermost so far; text: its size, where parity
 * decides. */
void dl_product_count(dl_product *p, dl_emitter *e, dl_number_kind kind, int64_t size,
                      const char *text);
/* An operand that nothing moves through yet. */
dl_operand dl_operand_new(const dl_product *p, int place, bool left);
/* One step of the counter is `times` steps along the operand's axis. */
void dl_operand_follow(const dl_product *p, dl_operand *o, dl_number_kind kind, int counter,
                       int axis, int64_t times);
#endif
