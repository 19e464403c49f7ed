/* A binary heap of numbered items, the least key at the root; equal keys come out by rising item.
 */
#ifndef DL_HEAP_H
#define DL_HEAP_H
#include "ir/base/arena.h"

typedef struct {
    int64_t key;
    int item;
} dl_heap_entry;
typedef DL_ARRAY(dl_heap_entry) dl_heap;

void dl_heap_put(dl_arena *arena, dl_heap *h, int64_t key, int item);
/* Takes the item of the least key; the heap must not be empty. */
int dl_heap_take(dl_heap *h);
#endif
