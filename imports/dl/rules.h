/* The rules that rules.def names. */
#ifndef DL_IMPORTS_DL_RULES_H
#define DL_IMPORTS_DL_RULES_H
#include "imports/dl/calls.h"

#define RULE(op, function, detail) extern dl_in_rule dl_in_##function;
#define RULE_COMPLEX               RULE
#include "imports/dl/rules.def"

/* Matches two values as PyTorch broadcasts them, so that equal positions have equal names; the
 * result's axes in the order that the language gives them. stmt is set by the caller. */
dl_in_value *dl_match(dl_in_ctx *c, dl_in_value *a, dl_in_value *b);
/* A product over named axes: letters of einsum. n operands; letter[k] of each dimension of operand
 * k, and the result's. */
bool dl_contract(dl_in_ctx *c, int n, dl_in_value *const *v, const char *const *letters,
                 const char *result);
/* The product of two complex values, element by element. */
bool dl_multiply_complex(dl_in_ctx *c, dl_in_value *a, dl_in_value *b);
/* v, real or complex, times number[0] + number[1] i. (rules_complex.c) */
bool dl_times_number(dl_in_ctx *c, dl_in_value *v, const double *number);

/* v stretched to these sizes, as PyTorch's expand does; NULL: it cannot be. A first size, or an
 * open one, that is the batch's is the batch. open: NULL for none. (rules_axes.c) */
dl_in_value *dl_expanded(dl_in_ctx *c, const dl_in_value *v, int rank, const int64_t *shape,
                         const bool *open);
/* v, which goes next to `like` in one tensor: where it is the same for all samples, as a first
 * dimension of 1 may say in an archive of one sample, and `like` is not, it is repeated for each.
 * NULL: it cannot be. (rules_axes.c) */
dl_in_value *dl_with_batch(dl_in_ctx *c, dl_in_value *v, const dl_in_value *like);

/* The axis of dimension d, alone; the value is brought into a form that has it. (rules_axes.c) */
int dl_axis_for(dl_in_ctx *c, dl_in_value *v, int d);
/* x at whole numbers along dimension d; the numbers' dimensions stand in its place. (rules_index.c)
 */
bool dl_gather(dl_in_ctx *c, dl_in_value *x, dl_in_value *numbers, int d);
/* Numbers along an axis of that size; negative ones of the archive count from its end, which they
 * do not in the language. (rules_index.c) */
dl_in_value *dl_from_start(dl_in_ctx *c, const dl_foreign_tensor *t, int64_t size);
/* The places that x[i, j, ...] names, and in *first the dimension of x that they count along: where
 * there are several numbers a place, x's dimensions become one. NULL: they are in no row, or only
 * known when the model runs, where a number beyond one dimension would mean another element. */
dl_in_value *dl_join_indexed(dl_in_ctx *c, dl_in_value *x, const dl_foreign_arg *list, int *first);

/* function(v, over=[...]), whose result, times a factor, is the node's. (rules_reduce.c) */
bool dl_reduce_by(dl_in_ctx *c, dl_in_value *v, const char *function, int n, const int *dims,
                  double factor);
/* v, whose statement has lost these dimensions' axes, without the dimensions; keep: they have size
 * 1. (rules_reduce.c) */
dl_in_value *dl_reduced(dl_in_value *v, int n, const int *dims, bool keep);
/* Whether the op's name begins with one of these; NULL-terminated. (operands.c) */
bool dl_is_one_of(const char *op, const char *const *names);
/* The tensor that t's elements are those of, or some of: itself, or one that it is a view or a copy
 * of. NULL: an op has written into one of them. */
const dl_foreign_tensor *dl_source_of(const dl_in_ctx *c, const dl_foreign_tensor *t);
/* Whether all elements of a tensor are one number: zeros, ones and the like, and views of them. */
bool dl_is_filled(const dl_in_ctx *c, const dl_foreign_tensor *t, double *number);
bool dl_is_zero(const dl_in_ctx *c, const dl_foreign_tensor *t);

/* ---- complex.c ---- */

/* Gives all axes names: Z to the last one where it has the parts of complex numbers, and to no
 * other. */
void dl_name_parts(dl_in_ctx *c, dl_in_value *v, bool parts);
/* Brings complex numbers into the form that the language's functions take: axis Z is the last one,
 * and no other axis has this name. */
void dl_end_in_parts(dl_in_ctx *c, dl_in_value *v);
/* Whether sums, products and quotients of complex numbers are those of their parts, one by one. */
bool dl_is_by_parts(const char *sign, const dl_foreign_arg *x, const dl_foreign_arg *y);
/* A real value as an operand of that kind, next to a complex one: the parts go past its last
 * dimension. NULL: it has too many. */
dl_in_value *dl_next_to_parts(dl_in_ctx *c, dl_in_value *v);

/* A tensor after a write into a part of it, which node `part` (a slice, a select) has made of it;
 * NULL: another kind of part. */
dl_in_value *dl_written(dl_in_ctx *c, const dl_foreign_node *part, const dl_in_value *whole,
                        const dl_in_value *content);
/* sets result 0 of an elementwise function */
bool dl_done(dl_in_ctx *c, const dl_in_value *like, int stmt);
#endif
