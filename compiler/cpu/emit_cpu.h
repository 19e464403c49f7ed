/* Shared by the emitters of the CPU's kernels. */
#ifndef DL_EMIT_CPU_H
#define DL_EMIT_CPU_H
#include "compiler/codegen/emit_program.h"
#include "compiler/cpu/cpu.h"
#include "ir/templates.h"

/* The kernel's name in its text: a hole (holes.h), since equal kernels of other plans have others.
 */
#define DL_OWN_NAME "$$"

/* The head of a function that a work item runs: "WARM void NAME(...) {". `attributes`: "WARM ". */
void dl_emit_function(dl_emitter *e, const char *attributes, const char *name);
/* Adds a phase of so many work items, which run these statements. */
void dl_emit_phase(dl_emitter *e, dl_emitted *code, int64_t items, const char *statements);

/* The kernel's loop nests from number `from` on, each stage in a phase or two. False: refused. */
bool dl_emit_loop_nests(dl_emitter *e, int from, dl_emitted *code, dl_error *err);

/* One loop nest as the function e->name; returns its number of work items. emit_pointwise.c;
 * resident reductions: emit_resident.c */
int64_t dl_emit_points(dl_emitter *e, dl_emitted *code);
int64_t dl_emit_resident(dl_emitter *e, dl_emitted *code);
bool dl_emit_scatter(dl_emitter *e, dl_emitted *code,
                     dl_error *err); /* a scatter: stores at indices that are values */
bool dl_emit_pointwise(dl_emitter *e, dl_emitted *code, dl_error *err); /* without a contraction */
bool dl_emit_gemm(dl_emitter *e, dl_emitted *code,
                  dl_error *err); /* contractions by axis names (GEMM) */
/* dl_emit_<family>: calls of a family of templates. emit_<family>.c */
typedef bool dl_emit_call(dl_emitter *e, dl_emitted *code, dl_error *err);
#define DL_TEMPLATE(id, ...)                   __VA_ARGS__
#define CALL(results, family, variants, shard) dl_emit_call dl_emit_##family;
#define OP                                     DL_TEMPLATE_ROW
#include "ir/ops.def"
#undef OP
#undef CALL
#undef DL_TEMPLATE
bool dl_emit_contraction(dl_emitter *e, dl_emitted *code, dl_error *err);
#endif
