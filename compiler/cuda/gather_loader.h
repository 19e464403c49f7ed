/* The gather loader: operands whose elements threads find and copy or read by themselves, as
 * structs that kernels/contract.cu reads them through: where row i and term k lie, and whether they
 * lie inside. And what the structs of all operands have in common, whatever loader brings them. */
#ifndef DL_CUDA_GATHER_LOADER_H
#define DL_CUDA_GATHER_LOADER_H
#include "compiler/cuda/gemm_coordinates.h"

int64_t dl_operand_taps(const dl_product *p, const dl_operand *o); /* of an image; of others one */
const char *dl_operand_side(const dl_operand *o);                  /* left, right */
const char *dl_operand_words(const dl_operand *o);
bool dl_operand_is_read(const dl_operand *o); /* word by word, or as it lies: by nothing else */
/* What the struct <kernel>_<which> of any operand begins with: word and index. */
void dl_product_put_head(dl_emitter *e, const dl_operand *o, const char *which);
/* The struct <kernel>_<which> of an operand whose elements threads find, with constants of its own,
 * in C; its rows are `line` rows of the product each. */
void dl_product_put_read(dl_emitter *e, const dl_product *p, const dl_operand *o, const char *which,
                         const char *constants, int64_t line);
/* `which`, the struct <kernel>_<which> that reads the operand where it lies, of the unit `u`. */
void dl_operand_put_reader(dl_emitter *e, const dl_operand *o, const char *which);
#endif
