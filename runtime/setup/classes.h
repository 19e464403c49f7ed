/* Upper bounds of the whole numbers in a model's inputs and targets, found from the ops that read
 * them: class labels and indices. */
#ifndef DLC_CLASSES_H
#define DLC_CLASSES_H
#include "ir/graph.h"
#include "runtime/exec/exec.h"

/* The bound of v's numbers: the classes of a cross_entropy or in_top_k, the rows of an embedding or
 * another gather, the depth of a one_hot; the smallest of them where several ops read v, directly
 * or through moves, cuts and casts. 0: no such op reads it. `m` is as the front end built it. */
int64_t dl_classes_count(const dl_module *m, const dl_var *v);

typedef DL_ARRAY(dlr_classed) dl_classes;

/* The bounds of all inputs and targets, in the arena; call it before passes rewrite the module.
 * Truth values have the bound 2. */
dl_classes dl_classes_find(dl_arena *arena, const dl_module *m);
/* The bounds whose violation gives NaN or an infinity, for messages: of variables that
 * cross_entropy or gather read directly, and of which the model excludes no number (where,
 * ignore_index). */
dl_classes dl_classes_strict(dl_arena *arena, const dl_module *m);
#endif
