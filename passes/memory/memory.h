/* Who needs memory when: liveness of a graph in its present order, for scheduling, planning and the
 * account of the peak.
 *
 * Variables live for the whole run. A value that is the next value of a variable (result UPDATE) is
 * written in place of the old one. Every other value has a storage from the node that makes it to
 * the last that reads it, or to the end when the host reads it. What a collective reads lives until
 * it is waited for, and what one sums lies in one storage, in place. */
#ifndef DL_MEMORY_H
#define DL_MEMORY_H
#include "passes/pass.h"

/* Transient memory, used by one value or by several in turn (an output that takes over a dying
 * input). */
typedef struct {
    const dl_value *value; /* the first that lives here */
    int first,
        last; /* positions in g->nodes, both included; last is g->nodes.n when the host reads it */
    int64_t bytes;
    int64_t offset; /* from the arena's start, once packed */
    bool bucket;    /* of all operands and results of a sum over ranks, side by side */
} dl_storage;

typedef struct {
    int n;
    dl_storage *at;  /* in order of `first` */
    int *of;         /* by value id: index into `at`, or -1 */
    int64_t *inner;  /* by value id: bytes from its storage's start */
    dl_var **var_of; /* by value id: the variable whose memory it is or takes over, or NULL */
    int64_t peak;    /* most bytes of storages alive at once: no packing can need less */
    int peak_at;     /* the position where that is first so */
} dl_liveness;

/* DL_INTERNAL when an update cannot be written in place: an earlier pass promised what it does not
 * keep. */
bool dl_find_liveness(const dl_graph *g, dl_arena *arena, dl_liveness *out, dl_error *err);

/* May n write its result x over v? It does not read v, or reads each point of it before it writes
 * the same. */
bool dl_memory_overwrites(const dl_node *n, const dl_value *x, const dl_value *v);

/* Where a value or variable of this size may start: 64 bytes for a vector, a page for large ones.
 */
int64_t dl_memory_align(int64_t offset, int64_t bytes);

/* What the arena of the whole planned module needs: the most of its graphs, which run in turn. */
int64_t dl_module_arena_bytes(const dl_module *m);

/* Writes what is alive at the peak of a planned graph, largest first, a line each with size, type
 * and source line, and sums by role of the variables. False: DL_USAGE, memory is not planned. */
bool dl_memory_report(const dl_graph *g, dl_buf *out, dl_error *err);
#endif
