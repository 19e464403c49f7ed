/* A batch's numbers as its files have them, on their way to an input on a device, and the kernel that makes
 * the input of them: dl_feed_0(const char *batch, T *input, char *workspace), blocks of DL_FEED_THREADS
 * threads and any number of them.
 *
 * A plan for a device has the kernel in an object of its own (compiler/backend.h: feed); the runtime writes
 * the batch (runtime/gather.h): this table, a move for each sample, a mean and a deviation for each channel,
 * the numbers. compiler/cuda/kernels/feed.cu declares the same. */
#ifndef DL_FEED_H
#define DL_FEED_H
#include "ir/type.h"

enum { DL_FEED_AXES = 4, DL_FEED_THREADS = 256 };

typedef enum { DL_FEED_F32, DL_FEED_F16, DL_FEED_BF16, DL_FEED_F64 } dl_feed_type;

typedef struct {
    int64_t samples;
    int64_t size[DL_FEED_AXES]; /* of a sample's axes as the input has them in memory, slowest first; those
                                   that it has not are of 1, in front. Together below 2^31 */
    int64_t channel;            /* which of these axes chooses mean and deviation; -1: they are not applied */
    int64_t to;                 /* dl_feed_type of the input; the numbers are f32 */
    int64_t moves, scales, numbers; /* bytes from the table's beginning to each */
} dl_feed_table;

/* Of a sample: the element at x0, x1, ... is number base + x0 step[0] + x1 step[1] + ... of the batch. */
typedef struct {
    int64_t base, step[DL_FEED_AXES];
} dl_feed_move;

/* Of a channel: (x - mean) / deviation, in f32. */
typedef struct {
    float mean, deviation;
} dl_feed_scale;

/* Where the parts of a batch lie for an input of that type, [N, ...] of floats, each on a boundary of 64
 * bytes.
 */
typedef struct {
    int64_t moves, scales, numbers, end;
} dl_feed_places;
static inline dl_feed_places dl_feed_place(const dl_type *t) {
    int64_t channels = t->rank > 1 ? t->axis[1].size : 1, samples = t->rank > 0 ? t->axis[0].size : 1;
    dl_feed_places p = {.moves = ((int64_t)sizeof(dl_feed_table) + 63) & ~63LL};
    p.scales = (p.moves + samples * (int64_t)sizeof(dl_feed_move) + 63) & ~63LL;
    p.numbers = (p.scales + channels * (int64_t)sizeof(dl_feed_scale) + 63) & ~63LL;
    p.end = (p.numbers + dl_type_count(t) * (int64_t)sizeof(float) + 63) & ~63LL;
    return p;
}

/* Bytes of the stage for an input: it itself, or such a batch, of floats. */
static inline int64_t dl_feed_room(const dl_type *t) {
    int64_t itself = (dl_type_bytes(t) + 63) & ~63LL, batch = dl_feed_place(t).end;
    return dl_dtype_is_float(t->dtype) && batch > itself ? batch : itself;
}
#endif
