/* Below which number a variable's whole numbers stay, by what the model reads with them. */
#ifndef DLC_CLASSES_H
#define DLC_CLASSES_H
#include "ir/graph.h"
#include "runtime/exec/exec.h"

/* The classes of a cross_entropy or in_top_k, the rows of an embedding or another gather, the depth
 * of a one_hot: the smallest, where several read the variable or what is only moved, cut or cast of
 * it. 0: nothing says. `m` is as the front end built it. */
int64_t dl_classes_count(const dl_module *m, const dl_var *v);

typedef DL_ARRAY(dlr_classed) dl_classes;

/* The bounds of all inputs and targets: to be asked before passes rewrite the module. Truth values
 * have two.
 */
dl_classes dl_classes_find(dl_arena *arena, const dl_module *m);
/* Only of those that are read as they are by what makes a number beyond it NaN or infinite
 * (cross_entropy, gather), and of which the model sets no number apart (where, ignore_index): for
 * messages. */
dl_classes dl_classes_strict(dl_arena *arena, const dl_module *m);
#endif
