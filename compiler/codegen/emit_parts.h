/* Between the files that write a kernel's program: emit_program.c, of values (emit_values.c) that
 * come from memory and go there (emit_access.c). */
#ifndef DL_EMIT_PARTS_H
#define DL_EMIT_PARTS_H
#include "compiler/codegen/emit_program.h"

/* ---- emit_values.c ---- */

/* What the prelude's functions on arrays of an element type, and on vectors, end with: "_bf16", "".
 */
const char *dl_emit_suffix(dl_dtype d);
/* One number that all lanes share: what a random number is drawn by. */
bool dl_emit_is_shared(const dl_kernel *k, const dl_kinstr *in);
/* What stands in front of an expression of type `from` and behind it to make it one of type `to`.
 */
dl_cast dl_emit_cast(dl_lane_mode mode, dl_dtype from, dl_dtype to);
/* The operand as the result's type. */
void dl_emit_cast_operand(dl_emitter *e, const dl_kinstr *in);
/* The op's expression with a, b, c as operand values, p as its attribute, k_f as f on their type.
 */
void dl_emit_expression(dl_emitter *e, const dl_kinstr *in);

/* ---- emit_access.c ---- */

/* "4L": a number among coordinates. */
const char *dl_emit_whole(const dl_emitter *e, int64_t v);
/* The expression of a load, the statement of a store. */
void dl_emit_load(dl_emitter *e, const dl_kinstr *in);
void dl_emit_store(dl_emitter *e, const dl_kinstr *in);
#endif
