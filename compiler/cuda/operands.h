/* Builds a GEMM problem's modes and operands step by step: by axis names (emit_operands.c) and
 * windows (emit_geometry.c). */
#ifndef DL_CUDA_OPERANDS_H
#define DL_CUDA_OPERANDS_H
#include "compiler/cuda/emit_tiles.h"

/* Adds a coordinate to a mode, as the innermost; text: its extent, where it depends on the
 * stride phase. */
void dl_product_count(dl_product *p, dl_emitter *e, dl_number_kind kind, int64_t size,
                      const char *text);
/* An operand that no coordinate moves through yet. */
dl_operand dl_operand_new(const dl_product *p, int place, bool left);
/* One step of the coordinate is `times` steps along the operand's axis. */
void dl_operand_follow(const dl_product *p, dl_operand *o, dl_number_kind kind, int counter,
                       int axis, int64_t times);
#endif
