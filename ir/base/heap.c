#include "ir/base/heap.h"

static bool is_less(dl_heap_entry a, dl_heap_entry b) {
    return a.key != b.key ? a.key < b.key : a.item < b.item;
}

void dl_heap_put(dl_arena *arena, dl_heap *h, int64_t key, int item) {
    dl_heap_entry e = {key, item};
    dl_push(arena, h, e);
    int i = h->n - 1;
    for (int up; i > 0 && is_less(e, h->at[up = (i - 1) / 2]); i = up) h->at[i] = h->at[up];
    h->at[i] = e;
}

int dl_heap_take(dl_heap *h) {
    dl_heap_entry last = h->at[--h->n];
    int least = h->at[0].item, i = 0;
    for (int child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && is_less(h->at[child + 1], h->at[child])) child++;
        if (!is_less(h->at[child], last)) break;
        h->at[i] = h->at[child];
    }
    h->at[i] = last;
    return least;
}
