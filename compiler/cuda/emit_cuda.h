/* The emitters of CUDA kernels, by the kernels that they serve: emit_cuda.c chooses between
 * them. */
#ifndef DL_EMIT_CUDA_H
#define DL_EMIT_CUDA_H
#include "compiler/cuda/phase.h"

/* Kernels without a contraction: e->steps, partial and kept are there. emit_sweeps.c */
bool dl_cuda_sweeps(dl_emitter *e, dl_emitted *code, dl_error *err);
/* The same of kernels that may consist of strands: of each a text, if they are worth it.
 * emit_strands.c */
bool dl_cuda_strands(dl_emitter *e, dl_emitted *code, dl_error *err);
/* A store at places that values tell. emit_scatter.c */
bool dl_cuda_scatter(dl_emitter *e, dl_emitted *code, dl_error *err);
/* Kernels around a contraction, by windows or by names. emit_contract.c */
bool dl_cuda_contraction(dl_emitter *e, int variant, dl_emitted *code, dl_error *err);
/* dl_backend.variants of such a kernel. */
int dl_cuda_tilings(dl_emitter *e, const char **names);
/* Numbers for the functions of those tilings that take at most `near` times what the first does;
 * their number. */
int dl_cuda_near_tilings(dl_emitter *e, double near, dl_cuda_way *ways);
/* The same with its product made by a library; dl_backend.calls. emit_call.c, emit_contract.c */
bool dl_cuda_around_call(dl_emitter *e, const dl_algorithm *by, dl_emitted *code, dl_error *err);
int dl_cuda_find_calls(dl_emitter *e, dl_call *forms);
/* The numbers in TF32 that attention's operands in f32, its shares and their gradients are made of.
 */
enum { DL_ATTENTION_PARTS = 2 };
/* Calls of attention and its gradients. emit_attention.c */
bool dl_cuda_attention(dl_emitter *e, int variant, dl_emitted *code, dl_error *err);
/* dl_backend.variants of such a kernel. */
int dl_cuda_attention_ways(dl_emitter *e, const char **names);
#endif
