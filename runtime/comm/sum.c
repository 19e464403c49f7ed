/* Sums in the order of the members. A block of elements stays in the L1 cache while the members'
 * parts are added to it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/convert.h"
#include "runtime/comm/parts.h"

enum { BLOCK = 1024 };

#define REDUCE(T, name, better)                                                                    \
    static void add_##name(void *sum, const void *part, int64_t n) {                               \
        T *restrict s = sum;                                                                       \
        const T *restrict p = part;                                                                \
        for (int64_t i = 0; i < n; i++) s[i] += p[i];                                              \
    }                                                                                              \
    static void largest_##name(void *sum, const void *part, int64_t n) {                           \
        T *restrict s = sum;                                                                       \
        const T *restrict p = part;                                                                \
        for (int64_t i = 0; i < n; i++) s[i] = better ? p[i] : s[i];                               \
    }
REDUCE(float, f32, p[i] > s[i] || isnan(p[i]))
REDUCE(double, f64, p[i] > s[i] || isnan(p[i]))
/* A sum that overflows wraps, as a kernel's does. */
REDUCE(uint32_t, i32, (int32_t)p[i] > (int32_t)s[i])
REDUCE(uint64_t, i64, (int64_t)p[i] > (int64_t)s[i])

typedef void step(void *sum, const void *part, int64_t n);
static step *const steps[][2] = {[DL_F32] = {add_f32, largest_f32},
                                 [DL_F64] = {add_f64, largest_f64},
                                 [DL_I32] = {add_i32, largest_i32},
                                 [DL_I64] = {add_i64, largest_i64}};

void dlr_sum(dl_dtype type, bool largest, int64_t count, int n, const void *const *from, void *to) {
    bool half = dl_dtype_is_half(type);
    dl_dtype in = half ? DL_F32 : type;
    int64_t bytes = dl_dtype_bytes(type);
    _Alignas(64) char sum[BLOCK * sizeof(double)], wide[BLOCK * sizeof(float)];
    if (n == 1) { /* a copy, which keeps all bits of a NaN */
        if (to != from[0] && count > 0) memcpy(to, from[0], (size_t)(count * bytes));
        return;
    }
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t block = count - at < BLOCK ? count - at : BLOCK;
        dlr_convert(in, sum, type, (const char *)from[0] + at * bytes, block);
        for (int m = 1; m < n; m++) {
            const void *part = (const char *)from[m] + at * bytes;
            if (half) dlr_convert(in, wide, type, part, block), part = wide;
            steps[in][largest](sum, part, block);
        }
        dlr_convert(type, (char *)to + at * bytes, in, sum, block);
    }
}

static void copy(void *to, const void *from, int64_t bytes) {
    if (to != from && bytes > 0) memcpy(to, from, (size_t)bytes);
}

static void gather(int n, const dlr_collective *const *calls) {
    const dlr_collective *c = calls[0];
    int64_t e = dl_dtype_bytes(c->type), all = dlr_block_before(c, n) * e;
    for (int m = 0; m < n; m++)
        for (int from = 0; from < n; from++) {
            int64_t piece = c->counts[from] * e, before = dlr_block_before(c, from) * e;
            for (int64_t b = 0; b < c->outer; b++)
                copy((char *)calls[m]->to + b * all + before,
                     (const char *)calls[from]->from + b * piece, piece);
        }
}

static void scatter(int n, const dlr_collective *const *calls, const void **parts) {
    const dlr_collective *c = calls[0];
    int64_t e = dl_dtype_bytes(c->type), all = dlr_block_before(c, n) * e;
    for (int m = 0; m < n; m++) {
        int64_t piece = c->counts[m], before = dlr_block_before(c, m) * e;
        for (int64_t b = 0; b < c->outer; b++) {
            for (int from = 0; from < n; from++)
                parts[from] = (const char *)calls[from]->from + b * all + before;
            dlr_sum(c->type, false, piece, n, parts, (char *)calls[m]->to + b * piece * e);
        }
    }
}

static void shift(int n, const dlr_collective *const *calls) {
    for (int m = 0; m < n; m++) {
        const dlr_collective *giver = calls[dlr_giver(n, m)];
        copy(calls[m]->to, giver->from,
             giver->counts[dlr_giver(n, m)] * dl_dtype_bytes(giver->type));
    }
}

/* Sums into member 0's buffer first: all of it is read before another member's is written. */
static void reduce(int n, const dlr_collective *const *calls, const void **parts) {
    const dlr_collective *c = calls[0];
    for (int m = 0; m < n; m++) parts[m] = calls[m]->from;
    dlr_sum(c->type, c->kind == DLR_ALL_REDUCE_MAX, c->count, n, parts, c->to);
    for (int m = 1; m < n; m++) copy(calls[m]->to, c->to, c->count * dl_dtype_bytes(c->type));
}

void dlr_collective_here(int n, const dlr_collective *const *calls) {
    const dlr_collective *c = calls[0];
    const void **parts = dl_calloc((size_t)n, sizeof *parts);
    if (c->kind == DLR_ALL_GATHER)
        gather(n, calls);
    else if (c->kind == DLR_REDUCE_SCATTER)
        scatter(n, calls, parts);
    else if (c->kind == DLR_SHIFT)
        shift(n, calls);
    else if (c->kind == DLR_BROADCAST)
        for (int m = 0; m < n; m++)
            copy(calls[m]->to, calls[c->root]->from, c->count * dl_dtype_bytes(c->type));
    else
        reduce(n, calls, parts);
    free(parts);
}
