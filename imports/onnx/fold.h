/* Folding: the results of a node whose operands' numbers are known. Inside of the reader. */
#ifndef DL_IMPORTS_ONNX_FOLD_H
#define DL_IMPORTS_ONNX_FOLD_H
#include "imports/onnx/parts.h"

enum { DL_OX_FOLD_COUNT = 1 << 20 }; /* of numbers, at most */

/* The batch that numbers are computed for: DL_OX_BATCH, DL_OX_OTHER_BATCH, or a single sample, in
 * which the batch's axis has the size 1: the first of all, or the second. */
typedef enum { DL_OX_FOR_BATCH, DL_OX_FOR_OTHER, DL_OX_FOR_FIRST, DL_OX_FOR_SECOND } dl_ox_batch;

typedef struct {
    dl_ox *r;
    const dl_ox_node *n;
    dl_ox_value *in[4];
    const double *x[4]; /* NULL: absent */
    dl_ox_shape s[4];
    int count;
    dl_ox_batch batch;
} dl_ox_folding;

typedef bool dl_ox_fold_rule(dl_ox_folding *f);

/* ---- fold_numbers.c ---- */

/* The numbers of an operand and its shape, both for f's batch. */
const double *dl_ox_fold_numbers(const dl_ox_folding *f, const dl_ox_value *v);
dl_ox_shape dl_ox_fold_shape(const dl_ox_folding *f, const dl_ox_value *v);
/* Room for the numbers of a shape; NULL: they are too many. */
double *dl_ox_fold_room(dl_ox_folding *f, const dl_ox_shape *s);
/* Stores the node's only result. */
bool dl_ox_fold_hold(dl_ox_folding *f, const dl_ox_shape *s, double *numbers,
                     dl_foreign_class class, dlr_st_dtype dtype);
/* The same, with the class and type of operand `like`. */
bool dl_ox_fold_hold_like(dl_ox_folding *f, const dl_ox_shape *s, double *numbers, int like);

/* ---- fold_moved.c ---- */

dl_ox_fold_rule dl_ox_fold_gather, dl_ox_fold_gather_rows, dl_ox_fold_transpose, dl_ox_fold_concat,
    dl_ox_fold_slice, dl_ox_fold_scatter, dl_ox_fold_scatter_elements, dl_ox_fold_cumsum;

/* ---- fold.c ---- */

/* Runs the rule of the node's op. False: it has none, or not for this form. */
bool dl_ox_fold_by_rule(dl_ox_folding *f);
#endif
