/* A batch's numbers as its files have them, on their way to an input on a device, and the kernel that makes
 * the input of them: dl_feed_0(const char *batch, T *input, const char *held), blocks of DL_FEED_THREADS
 * threads and any number of them.
 *
 * A plan for a device has the kernel in an object of its own (compiler/target/backend.h: feed); the runtime
 * writes the batch (runtime/train/feed_gather.c): this table, a move for each sample, a mean and a deviation
 * for each channel, the numbers. compiler/cuda/kernels/feed.cu declares the same. */
#ifndef DL_FEED_H
#define DL_FEED_H
#include "ir/type.h"

enum { DL_FEED_AXES = 4, DL_FEED_THREADS = 256 };

/* Floats are made of any of these but f16, bf16 and f64; whole numbers and bool (u8, 0 or 1) of themselves
 * alone. */
typedef enum {
    DL_FEED_F32,
    DL_FEED_F16,
    DL_FEED_BF16,
    DL_FEED_F64,
    DL_FEED_I8,
    DL_FEED_U8,
    DL_FEED_I16,
    DL_FEED_U16,
    DL_FEED_I32,
    DL_FEED_U32,
    DL_FEED_I64
} dl_feed_type;

typedef struct {
    int64_t samples;
    int64_t size[DL_FEED_AXES]; /* of a sample's axes as the input has them in memory, slowest first; those
                                   that it has not are of 1, in front. Together below 2^31 */
    int64_t channel;            /* which of these axes chooses mean and deviation; -1: the first ones do */
    int64_t from, to;           /* dl_feed_type of the numbers and of the input */
    int64_t moves, scales, numbers; /* bytes from the table's beginning to each */
    int64_t held;     /* or of the numbers, from the beginning of what the device holds; 0: they come along */
    int64_t replaces; /* floats that are not finite become `other`, which is not scaled; 0: they are like
                         others */
    float other;
} dl_feed_table;

/* Of an axis of a sample: element x of it is first + x step numbers on, and goes round: where that is not
 * below `round`, so much is taken off, once. Crops, flips, turns, shifts and any order of axes are such.
 *
 * Or between two of `points` points, which lie there: at zoom (x - c) + c + shift, c = (points - 1) / 2, held
 * to 0 .. points - 1, in double; a + (b - a) part of its neighbours, in f32, each operation rounded by
 * itself. Two axes of a float's sample at most, of which the slower one comes first; none goes round. Zooms
 * and shifts by parts of a point are such; backwards where zoom is negative. */
typedef struct {
    int64_t first, step, round;
    int64_t points; /* 0: between none */
    double zoom, shift;
} dl_feed_axis;

/* Of a sample: where its numbers begin among the batch's, and its elements among them. */
typedef struct {
    int64_t base;
    dl_feed_axis axis[DL_FEED_AXES];
} dl_feed_move;

/* Of a channel: (x - mean) / deviation, in f32. */
typedef struct {
    float mean, deviation;
} dl_feed_scale;

/* Where the parts of a batch lie for an input of that type, [N, ...], each on a boundary of 64 bytes; its
 * numbers are at most as wide as f32, those of whole numbers as wide as the input's. */
typedef struct {
    int64_t moves, scales, numbers, end;
} dl_feed_places;
static inline dl_feed_places dl_feed_place(const dl_type *t) {
    int64_t samples = t->rank > 0 ? t->axis[0].size : 1, scales = 1;
    for (int i = 1; i < t->rank; i++)
        if (t->axis[i].size > scales) scales = t->axis[i].size;
    int64_t wide = dl_dtype_is_float(t->dtype) ? (int64_t)sizeof(float) : dl_dtype_bytes(t->dtype);
    dl_feed_places p = {.moves = ((int64_t)sizeof(dl_feed_table) + 63) & ~63LL};
    p.scales = (p.moves + samples * (int64_t)sizeof(dl_feed_move) + 63) & ~63LL;
    p.numbers = (p.scales + scales * (int64_t)sizeof(dl_feed_scale) + 63) & ~63LL;
    p.end = (p.numbers + dl_type_count(t) * wide + 63) & ~63LL;
    return p;
}

/* Bytes of the stage for an input: it itself, or such a batch. */
static inline int64_t dl_feed_room(const dl_type *t) {
    int64_t itself = (dl_type_bytes(t) + 63) & ~63LL, batch = dl_feed_place(t).end;
    return batch > itself ? batch : itself;
}
#endif
