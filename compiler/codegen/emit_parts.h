/* Shared by the files that write a kernel's program: emit_program.c (the program), emit_values.c
 * (values) and emit_access.c (memory accesses). */
#ifndef DL_EMIT_PARTS_H
#define DL_EMIT_PARTS_H
#include "compiler/codegen/emit_program.h"

/* ---- emit_values.c ---- */

/* The suffix of the prelude's functions on arrays of an element type, and on vectors: "_bf16",
 * "". */
const char *dl_emit_suffix(dl_dtype d);
/* Is it a scalar that all lanes share? Random numbers are drawn by such. */
bool dl_emit_is_shared(const dl_kernel *k, const dl_kinstr *in);
/* The text before and after an expression of type `from` that casts it to type `to`. */
dl_cast dl_emit_cast(dl_lane_mode mode, dl_dtype from, dl_dtype to);
/* The operand, cast to the result's type. */
void dl_emit_cast_operand(dl_emitter *e, const dl_kinstr *in);
/* The op's expression: a, b, c are operand values, p its attribute, k_f is f on their type. */
void dl_emit_expression(dl_emitter *e, const dl_kinstr *in);

/* ---- emit_access.c ---- */

/* "x2": the coordinate along an axis, as an operand. */
const char *dl_emit_coordinate(dl_emitter *e, int axis);
/* "4L": an integer literal among coordinates. */
const char *dl_emit_integer(const dl_emitter *e, int64_t v);
/* The expression of a load; the statement of a store. */
void dl_emit_load(dl_emitter *e, const dl_kinstr *in);
void dl_emit_store(dl_emitter *e, const dl_kinstr *in);
#endif
