/* The graph to export, and how its sizes follow the batch.
 *
 * The graph "predict" is built for two batch sizes. Where both graphs have the same nodes, and
 * each size is a constant or a multiple of N, the sizes of every value are known for any N. */
#ifndef DL_ONNX_BATCH_H
#define DL_ONNX_BATCH_H
#include "exports/export.h"
#include "exports/onnx/model.h"

struct dl_onnx_sizes {
    const dl_graph *graph;       /* after `lower`, except for the ops that ONNX has */
    int64_t (*per)[DL_MAX_RANK]; /* by value id: elements of each axis for each sample, 0: fixed */
    int64_t (*cuts)[2];     /* by value id, of a slice: start and stop for each sample, 0: fixed */
    dl_onnx_sizes **bodies; /* by value id of a scan's first result: those of its body */
    const char *why;        /* the batch is fixed: the reason, a sentence; NULL: it is not */
    bool only;              /* the model has no other batch */
};

/* The graph for any batch or, where there is none, `why`. */
void dl_onnx_sizes_any(const dl_export *e, dl_onnx_sizes *out);
/* The graph for the session's batch. */
bool dl_onnx_sizes_fixed(const dl_export *e, dl_onnx_sizes *out, dl_error *err);
/* The graph becomes the one whose nodes are emitted: its values get descriptions, without names. */
void dl_onnx_enter(dl_onnx *o, const dl_onnx_sizes *sizes);
#endif
