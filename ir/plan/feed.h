/* The input gather: a batch in the form of its files, on its way to an input on a device, and the
 * kernel that computes the input from it: dl_feed_0(const char *batch, T *input, const char *held),
 * any number of blocks of DL_FEED_THREADS threads.
 *
 * A plan for a device has the kernel in an object of its own (compiler/target/backend.h: feed); the
 * runtime writes the batch (runtime/train/feed_gather.c): this table, a move for each sample, a
 * mean and a deviation for each channel, the numbers. compiler/cuda/kernels/feed.cu declares the
 * same. */
#ifndef DL_FEED_H
#define DL_FEED_H
#include "ir/type.h"

enum { DL_FEED_AXES = 4, DL_FEED_THREADS = 256 };

/* Float inputs are converted from any of these but f16, bf16 and f64; whole numbers and bool (u8, 0
 * or 1) only from their own type. */
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
    int64_t size[DL_FEED_AXES]; /* of a sample's axes in the input's order in memory, slowest
                                   first; missing ones come first, of size 1. Their product is
                                   below 2^31 */
    int64_t channel;  /* the axis that selects mean and deviation; -1: all elements have the first
                         ones */
    int64_t from, to; /* dl_feed_type of the numbers and of the input */
    int64_t moves, scales, numbers; /* bytes from the table's beginning to each */
    int64_t held;                   /* bytes to the numbers in the device-resident data set; 0: the
                                       batch has them */
    int64_t replaces;               /* 1: floats that are not finite become `other`, which is not
                                       scaled */
    float other;
} dl_feed_table;

/* How one axis of a sample is gathered. Element x is at first + x step, less `round` once where
 * that is not below `round` (the axis wraps around). This covers crops, flips, rotations, shifts
 * and any order of axes.
 *
 * Or, with `points`, element x is interpolated between two of `points` points of that axis: at zoom
 * (x - c) + c + shift, c = (points - 1) / 2, clamped to 0 .. points - 1, in double; the value is a
 * + (b - a) part of its neighbours a and b, in f32, each operation rounded by itself. At most two
 * axes of a float's sample are interpolated, of which the slower one comes first; neither wraps
 * around. This covers zooms and shifts by parts of a point; a negative zoom goes backwards. */
typedef struct {
    int64_t first, step, round;
    int64_t points; /* 0: no interpolation */
    double zoom, shift;
} dl_feed_axis;

/* How one sample is gathered: where its numbers begin among the batch's, and where its elements are
 * among them. */
typedef struct {
    int64_t base;
    dl_feed_axis axis[DL_FEED_AXES];
} dl_feed_move;

/* A channel's normalisation: (x - mean) / deviation, in f32. */
typedef struct {
    float mean, deviation;
} dl_feed_scale;

/* Offsets of the parts of a batch for an input of a given type, [N, ...], each at a multiple of 64
 * bytes. A float's numbers are at most as wide as f32, whole numbers as wide as the input's. */
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

/* Bytes of the staging buffer for an input: the input itself, or such a batch. */
static inline int64_t dl_feed_room(const dl_type *t) {
    int64_t itself = (dl_type_bytes(t) + 63) & ~63LL, batch = dl_feed_place(t).end;
    return batch > itself ? batch : itself;
}
#endif
