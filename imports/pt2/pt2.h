/* Archives of PyTorch: what torch.export.save writes (.pt2), since PyTorch 2.9.
 *
 * A zip of stored entries: the graph as JSON (models/model.json), and each weight's storage as raw
 * bytes. Pickles in it are never read. Specification: torch/_export/serde/schema.yaml. */
#ifndef DL_IMPORTS_PT2_H
#define DL_IMPORTS_PT2_H
#include "imports/graph/foreign.h"

typedef struct dl_pt2 dl_pt2;

/* Opens an archive and reads its graph; NULL with an error. Errors, each with the archive's name
 * and the place in it: DL_IO; DL_INPUT for what is damaged, cyclic, beyond its storage, too large
 * or of another version. */
dl_pt2 *dl_pt2_open(dl_arena *arena, const char *path, dl_error *err);
const dl_foreign_graph *dl_pt2_graph(const dl_pt2 *archive);
void dl_pt2_close(dl_pt2 *archive); /* NULL is fine */
#endif
