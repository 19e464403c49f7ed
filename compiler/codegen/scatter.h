/* Scatter-add as loops: kernels that add at indices which are values. No two threads add to one
 * destination, and each sums its points in their order, in double; so the bits do not depend on
 * the number of threads. There are two ways: in a work item of one thread the points are sorted
 * once (`sort`, `sums`); threads of a GPU search them (`elements`, `places`). */
#ifndef DL_SCATTER_H
#define DL_SCATTER_H
#include "compiler/codegen/loops.h"

typedef struct {
    dl_emitter *e;
    const dl_kinstr *store;
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
/* A thread per element of the result, of so many per work item: each looks at all points. Returns
 * the work items. */
int64_t dl_scatter_elements(const dl_scatter *s, int threads);
/* A work item per destination and some of its elements: all its threads look at points, and the
 * lanes of a group add those that were found. */
int64_t dl_scatter_places(const dl_scatter *s, int threads);
#endif
