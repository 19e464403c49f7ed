/* The gather loader: each thread computes the addresses of its elements, and copies or reads
 * them. Writes the structs by which kernels/contract.cu reads such operands: the address of row
 * i and K element k, and whether it is in bounds. It also writes the text that all loaders'
 * structs have in common. */
#ifndef DL_CUDA_GATHER_LOADER_H
#define DL_CUDA_GATHER_LOADER_H
#include "compiler/cuda/gemm_coordinates.h"
#include "compiler/cuda/loader.h"

/* The head of any operand's struct <kernel>_<which>: element type and index type. */
void dl_gemm_put_head(dl_emitter *e, const dl_operand *o, const char *which);
/* The struct <kernel>_<which> of a gathered operand, with constants of its own, in C; each of
 * its rows is `line` rows of the GEMM. */
void dl_gemm_put_gather(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o,
                        const char *which, const char *constants, int64_t line);
/* dl_loader.cost of operands that are copied or read in pieces below 16 bytes. */
double dl_operand_read_cost(const dl_gemm_problem *p, const dl_tiling *t, int operand);
/* `which`, an instance of the struct <kernel>_<which> that reads the operand in place, for the
 * work item `u`. */
void dl_operand_put_reader(dl_emitter *e, const dl_operand *o, const char *which);
#endif
