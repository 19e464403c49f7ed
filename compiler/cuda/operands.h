/* Builds a GEMM problem's modes and operands step by step: by axis names (gemm_by_names.c) and
 * windows (gemm_by_windows.c). */
#ifndef DL_CUDA_OPERANDS_H
#define DL_CUDA_OPERANDS_H
#include "compiler/cuda/gemm_problem.h"

/* Adds a coordinate to a mode, as the innermost; text: its extent, where it depends on the
 * stride phase. */
void dl_gemm_add_axis(dl_gemm_problem *p, dl_emitter *e, dl_mode_kind kind, int64_t size,
                      const char *text);
/* A coordinate of the space: its text, the mode that it belongs to, and the variable of that mode
 * that it depends on, or NULL. */
void dl_gemm_place(dl_gemm_problem *p, int axis, dl_mode_kind kind, const char *text,
                   const char *variable);
/* An operand that no coordinate moves through yet. */
dl_operand dl_operand_new(const dl_gemm_problem *p, int place, bool left);
/* One step of the coordinate is `times` steps along the operand's axis. */
void dl_operand_follow(const dl_gemm_problem *p, dl_operand *o, dl_mode_kind kind, int mode_axis,
                       int axis, int64_t times);
#endif
