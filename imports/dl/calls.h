/* Nodes of the graph as applications of one layer, and as calls of one module. */
#ifndef DL_IMPORTS_DL_CALLS_H
#define DL_IMPORTS_DL_CALLS_H
#include "imports/dl/parts.h"

/* "aten.add_" of "aten.add_.Tensor": characters. */
size_t dl_op_length(const char *op);
/* Whether an op writes into its first operand: aten.add_. */
bool dl_is_in_place(const char *op);
/* Whether a node adds to the number of batches that a batch norm has seen. */
bool dl_counts_batches(const dl_writer *w, const dl_foreign_node *n);
/* Whether a tensor of the archive is one number, which stands in the text. */
bool dl_is_number_text(const dl_foreign_tensor *t);

/* Whether all nodes that read one of the tensors are one op with equal arguments, in the same
 * module: applications of one layer. */
bool dl_is_one_layer(const dl_writer *w, int n, const dl_foreign_tensor *const *t);

/* Finds what a call reads from outside and computes for outside. several: its parameters may be
 * read by other calls of the module. False: it cannot be a module of its own. */
bool dl_find_ends(dl_in_ctx *c, dl_in_call *call, bool several);
/* The same for a module of several calls, which its first one stands for. False: it has no
 * parameters of its own, or calls are of other places or compute other things. */
bool dl_find_shared_ends(dl_in_ctx *c, dl_in_call *first);
/* Whether the nodes from `from` on compute what the first call does; sets what they read, in the
 * order of first->in. */
bool dl_is_same_call(const dl_writer *w, const dl_in_call *first, int from,
                     const dl_foreign_tensor **in);
/* The tensor that stands in that call where t stands in the first one. NULL: none. */
const dl_foreign_tensor *dl_counterpart(const dl_writer *w, const dl_in_call *first, int from,
                                        const dl_foreign_tensor *const *in,
                                        const dl_foreign_tensor *t);
#endif
