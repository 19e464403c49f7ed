/* Liveness of a graph in its present order of nodes, for scheduling, memory planning and the
 * report of the peak.
 *
 * Variables live for the whole run. The next value of a variable (result UPDATE) is written over
 * the old one. Every other value has a storage from the node that computes it to its last
 * reader, or to the end when the host reads it. A collective's operands and results live until
 * it has been waited for; the members of a sum over ranks share one storage, and are summed in
 * place. */
#ifndef DL_MEMORY_H
#define DL_MEMORY_H
#include "passes/pass.h"

/* Transient memory of one value, or of several in turn (an output that reuses a dying input). */
typedef struct {
    const dl_value *value; /* its first value */
    int first,
        last; /* positions in g->nodes, both included; last is g->nodes.n when the host reads it */
    int64_t bytes;
    int64_t offset; /* from the arena's start, once packed */
    dl_graph *body; /* of a scan, whose own values are here; NULL: the storage is of `value` */
    bool bucket;    /* holds all operands and results of a sum over ranks, contiguously */
} dl_storage;

typedef struct {
    int n;
    dl_storage *at;  /* in order of `first` */
    int *of;         /* by value id: index into `at`, or -1 */
    int64_t *inner;  /* by value id: bytes from its storage's start */
    bool *outside;   /* by value id: an output of a body, in the memory of the scan's result */
    dl_var **var_of; /* by value id: the variable whose memory it is or is written to, or NULL */
    int64_t peak;    /* the most bytes of storages alive at once: a lower bound of any packing */
    int peak_at;     /* the first position with that many */
} dl_liveness;

/* Fills *out. DL_INTERNAL: an update cannot be written in place, though an earlier pass has
 * prepared it. */
bool dl_find_liveness(const dl_graph *g, dl_arena *arena, dl_liveness *out, dl_error *err);

/* May n write its result x to the memory of v? Yes, if it does not read v, or reads each point
 * of it before it writes the same point. */
bool dl_memory_overwrites(const dl_node *n, const dl_value *x, const dl_value *v);

/* Aligns the offset of a value or variable of this size: 64 bytes for vectors, a page for large
 * tensors. */
int64_t dl_memory_align(int64_t offset, int64_t bytes);

/* The arena of the whole planned module: the maximum over its graphs, which run in turn. */
int64_t dl_module_arena_bytes(const dl_module *m);

/* Writes the values alive at the peak of a planned graph, the largest first, one per line with
 * size, type and source line, and sums of variables by role. False: DL_USAGE, memory is not
 * planned. */
bool dl_memory_report(const dl_graph *g, dl_buf *out, dl_error *err);
#endif
