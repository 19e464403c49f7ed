/* The weights of an imported model, under their own program's names. */
#ifndef DL_IMPORTS_WEIGHTS_H
#define DL_IMPORTS_WEIGHTS_H
#include "imports/graph/foreign.h"

/* Writes the tensors of the graph that the model has (kept[id]) as safetensors. Errors: those of
 * dlr_st_write and dl_foreign_load. */
bool dl_import_weights(const dl_foreign_graph *g, const bool *kept, const char *path,
                       dl_error *err);
#endif
