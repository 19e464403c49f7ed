/* The emitters of CUDA kernels by kind; emit_cuda.c chooses between them. */
#ifndef DL_EMIT_CUDA_H
#define DL_EMIT_CUDA_H
#include "compiler/cuda/phase.h"
#include "ir/templates.h"

/* Kernels without a contraction, after dl_emit_by_schedule. emit_loop_nests.c */
bool dl_cuda_loop_nests(dl_emitter *e, dl_emitted *code, dl_error *err);
/* Can all its resident reductions be emitted? Reserves workspace for values that nests keep. */
bool dl_cuda_runs_loop_nests(dl_emitter *e, dl_emitted *code);
/* The same for kernels that may be horizontally fused: one text for each part, if that pays.
 * emit_fused_parts.c */
bool dl_cuda_fused_parts(dl_emitter *e, dl_emitted *code, dl_error *err);
/* A scatter: a store at indices that are values. emit_scatter.c */
bool dl_cuda_scatter(dl_emitter *e, dl_emitted *code, dl_error *err);
/* Kernels around a contraction, windowed or by axis names. emit_contract.c */
bool dl_cuda_contraction(dl_emitter *e, int variant, dl_emitted *code, dl_error *err);
/* dl_backend.variants of such a kernel. */
int dl_cuda_tilings(dl_emitter *e, const char **names);
/* The functions of the tilings that take at most `near` times as long as the first one; returns
 * their number. */
int dl_cuda_near_tilings(dl_emitter *e, double near, dl_cuda_variant *variants);
/* The same with its GEMM computed by a library; dl_backend.calls. emit_call.c, emit_contract.c */
bool dl_cuda_around_call(dl_emitter *e, const dl_algorithm *by, dl_emitted *code, dl_error *err);
int dl_cuda_find_calls(dl_emitter *e, dl_call *forms);
/* The TF32 numbers that split each f32 operand of attention, its probabilities and their
 * gradients. */
enum { DL_ATTENTION_PARTS = 2 };
/* The class of kernels/elements.cu for a type of numbers. emit_scan.c */
const char *dl_cuda_elements(dl_dtype d);
/* A sort by kernels/sort.cu, and where its operand and results lie. emit_sort.c */
typedef struct {
    int64_t lines, size, inner; /* all elements but those along the axis; along it; after it */
    bool descending;
    int key_bytes;         /* 4 or 8 */
    const char *elements;  /* the class of the operand's elements */
    const char *from, *to; /* expressions: the operand; the places, or "(int *)0": entries */
    int64_t byte;          /* of two arrays of all entries in the workspace */
} dl_cuda_sorting;
/* Sorts. *second: entries in order are in the second of these arrays. */
bool dl_cuda_put_sort(dl_emitter *e, const dl_cuda_sorting *s, dl_emitted *code, bool *second,
                      dl_error *err);
/* The type of its keys; the bytes of an entry: a key, and then an index of 4 bytes. */
const char *dl_cuda_sort_key(const dl_cuda_sorting *s);
int64_t dl_cuda_sort_entry(const dl_cuda_sorting *s);
/* dl_cuda_<family>: calls of a family of templates. emit_<family>.c */
typedef bool dl_cuda_call(dl_emitter *e, int variant, dl_emitted *code, dl_error *err);
/* dl_cuda_<variants>_variants: dl_backend.variants of such kernels. */
typedef int dl_cuda_call_variants(dl_emitter *e, const char **names);
#define DL_TEMPLATE(id, ...) __VA_ARGS__
#define CALL(results, family, variants, shard)                                                     \
    dl_cuda_call dl_cuda_##family;                                                                 \
    dl_cuda_call_variants dl_cuda_##variants##_variants;
#define OP DL_TEMPLATE_ROW
#include "ir/ops.def"
#undef OP
#undef CALL
#undef DL_TEMPLATE
/* Is this call by wgmma, in the variant that its schedule names? */
bool dl_cuda_attention_by_wgmma(const dl_kernel *k, const dl_target *t);
#endif
