/* Scatters as loops: kernels that add at indices which are values, or store the largest value
 * there. No two threads have one destination, and each sums its points in their order, in double;
 * so the bits do not depend on the number of threads. There are four ways. A work item of one
 * thread has rows of its own (`rows`), or the points are sorted once (`sort`, `sums`). Threads of a
 * GPU search them where they are few (`elements`), or a GPU sorts them (`keys`, `lists`). */
#ifndef DL_SCATTER_H
#define DL_SCATTER_H
#include "compiler/codegen/loops.h"

typedef struct {
    dl_emitter *e;
    const dl_kinstr *store;
    dl_kinstr by;             /* how two values of one destination are combined */
    int number, end;          /* the instruction that computes the index; the store */
    dl_axis_list kept, added; /* axes that index and result have; that are summed; */
    dl_axis_list points;      /* both: the points that are sorted */
    dl_axis_list rest;        /* the others: whole rows are added */
    int64_t choices, places;  /* elements along the indexed axis; destinations of rows */
} dl_scatter;
/* Describes the kernel. False, refused: something else is in it. */
bool dl_scatter_find(dl_emitter *e, dl_scatter *s, dl_error *err);

/* A counting sort of the points by destination, in one work item and two passes (Knuth, The Art of
 * Computer Programming 3, 5.2). In the workspace: for each destination the end of its points; then
 * the points in order. */
void dl_scatter_sort(const dl_scatter *s);
int64_t dl_scatter_sorted_bytes(const dl_scatter *s);
/* The sums of `each` destinations per work item, from points that have been sorted. */
void dl_scatter_sums(const dl_scatter *s, int64_t each);
/* `each` rows of kept axes per work item, in a work item of one thread: the row's sums are in the
 * item's own memory, of so many bytes, and its points are added one after the other. */
void dl_scatter_rows(const dl_scatter *s, int64_t each);
int64_t dl_scatter_row_bytes(const dl_scatter *s);
/* A thread per element of the result, of so many per work item: each looks at all points. Returns
 * the work items. */
int64_t dl_scatter_elements(const dl_scatter *s, int threads);
/* A thread per point, of so many per work item: stores the number of its destination, or `places`
 * where it has none, as a long from this byte of the workspace on. Returns the work items. */
int64_t dl_scatter_keys(const dl_scatter *s, int threads, int64_t byte);
/* Points in the order of their destinations, in the workspace: of each destination, and of
 * `places`, the first one's index (long); the points (int), one in so many words. */
typedef struct {
    int64_t begins, order; /* bytes */
    int words, word;       /* a point's words; which of them it is */
} dl_scatter_list;
/* The sums of such points, which the lanes of a group share. Returns the work items. */
int64_t dl_scatter_lists(const dl_scatter *s, int threads, const dl_scatter_list *list);
#endif
