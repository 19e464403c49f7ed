/* Operands of the hand-written loops (compiler/cpu/kernels/): their element types in the loops'
 * tables, and whether bf16 pairs are multiplied. */
#ifndef DL_CPU_OPERANDS_H
#define DL_CPU_OPERANDS_H
#include "compiler/codegen/emit_program.h"
#include "compiler/cpu/cpu.h"

/* "BF16": an element type in the constant tables of compiler/cpu/kernels/. */
const char *dl_emit_element(dl_dtype d);
/* "(struct array){arg[3], BF16}": a parameter as an operand of the loops. */
const char *dl_emit_array(dl_emitter *e, int param);
/* Are all operands of the kernel's GEMM bf16, on a target that multiplies bf16 pairs
 * (kernels/bf16_pairs.c)? Its loops may still choose floats, for small K. Attention on CPUs with
 * AMX takes floats, since it has no AMX path there, and vectors multiply pairs at half the rate of
 * floats. */
bool dl_cpu_pairs(const dl_kernel *k, const dl_target *t);
#endif
