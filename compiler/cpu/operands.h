/* Operands of the hand-written loops (compiler/cpu/kernels/): what their elements are in the loops'
 * tables, and whether products take them as pairs of bf16. */
#ifndef DL_CPU_OPERANDS_H
#define DL_CPU_OPERANDS_H
#include "compiler/codegen/emit_program.h"
#include "compiler/cpu/cpu.h"

/* "BF16": such an element type in the constant tables of compiler/cpu/kernels/. */
const char *dl_emit_element(dl_dtype d);
/* "(struct array){arg[3], BF16}": a parameter as an operand of its loops. */
const char *dl_emit_array(dl_emitter *e, int param);
/* Are all operands of the kernel's products bf16, and does the target multiply such
 * (kernels/pairs.c)? Its loops may still want floats: of few terms. Attention on CPUs with tiles
 * does: it has none, and they multiply pairs in vectors at half the rate of floats. */
bool dl_cpu_pairs(const dl_kernel *k, const dl_target *t);
#endif
