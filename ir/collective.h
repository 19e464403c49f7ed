/* How an axis is partitioned over the ranks of a group: in order, size / ranks elements each, and
 * one more for the first size % ranks (4,050 over 4: 1,013, 1,013, 1,012, 1,012). */
#ifndef DL_COLLECTIVE_H
#define DL_COLLECTIVE_H
#include <stdint.h>

typedef struct {
    int64_t first, n;
} dl_share;

static inline dl_share dl_share_of(int64_t size, int64_t ranks, int64_t rank) {
    int64_t each = size / ranks, more = size % ranks;
    return (dl_share){rank * each + (rank < more ? rank : more), each + (rank < more)};
}
/* The shard that member `rank` holds after the ring has passed all shards on `ring_step` times; 0:
 * its own. */
static inline dl_share dl_ring_share(int64_t size, int64_t ranks, int64_t rank, int64_t ring_step) {
    return dl_share_of(size, ranks, (rank + ranks - ring_step % ranks) % ranks);
}
#endif
