/* The stand-in of cuDNN: its convolutions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/convert.h"
#include "tests/cuda/cudnn_standin.h"

dl_dtype cudnn_standin_dtype(int type) {
    return type == DLR_DNN_HALF ? DL_F16 : type == DLR_DNN_BFLOAT16 ? DL_BF16 : DL_F32;
}

static int64_t place_of(const tensor *t, const int64_t *at) {
    int64_t place = 0;
    for (int i = 0; i < t->n; i++) place += at[i] * t->step[i];
    return place;
}
size_t cudnn_standin_reach(const tensor *t) {
    int64_t last[AXES];
    for (int i = 0; i < t->n; i++) last[i] = t->size[i] - 1;
    return (size_t)(place_of(t, last) + 1) * (size_t)dl_dtype_bytes(cudnn_standin_dtype(t->type));
}

/* All that lies from there on; with `tf32` to 11 digits, ties away from zero, as kernels round
 * theirs. */
static float *fetch(const tensor *t, uint64_t at, bool tf32) {
    dl_dtype type = cudnn_standin_dtype(t->type);
    size_t n = cudnn_standin_reach(t) / (size_t)dl_dtype_bytes(type);
    float *to = malloc(n * sizeof *to);
    if (!to) abort();
    dlr_convert(DL_F32, to, type, memory(at, cudnn_standin_reach(t)), (int64_t)n);
    for (size_t i = 0; tf32 && i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &to[i], sizeof bits);
        bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
        if (isfinite(to[i])) memcpy(&to[i], &bits, sizeof bits);
    }
    return to;
}

/* The next of all points of a box; false: that was the last. */
static bool next(int n, const int64_t *size, int64_t *at) {
    int i = n - 1;
    while (i >= 0 && ++at[i] == size[i]) at[i--] = 0;
    return i >= 0;
}

/* Places of the three tensors for a product: [sample, group, c, o, taps..., outputs...]. False: on
 * padding. */
static bool place_all(const relation *r, const int64_t *at, int64_t place[DL_NTENSORS]) {
    const tensor *x = &r->of[DL_TENSOR_X], *w = &r->of[DL_TENSOR_W], *y = &r->of[DL_TENSOR_Y];
    int64_t groups = x->size[1] / w->size[1], n = r->spatial;
    int64_t of_x[AXES] = {at[0], at[1] * w->size[1] + at[2]},
            of_w[AXES] = {at[1] * (w->size[0] / groups) + at[3], at[2]},
            of_y[AXES] = {at[0], at[1] * (w->size[0] / groups) + at[3]};
    for (int i = 0; i < n; i++) {
        int64_t tap = at[4 + i], out = at[4 + n + i];
        of_w[2 + i] = tap, of_y[2 + i] = out;
        of_x[2 + i] = out * r->stride[i] + tap * r->dilation[i] - r->lo[i];
        if (of_x[2 + i] < 0 || of_x[2 + i] >= x->size[2 + i]) return false;
    }
    place[DL_TENSOR_X] = place_of(x, of_x), place[DL_TENSOR_W] = place_of(w, of_w);
    place[DL_TENSOR_Y] = place_of(y, of_y);
    return true;
}

/* Parts added in their order, by way of the workspace, and rounded. */
static void finish(const job *j, const float *sums, size_t reach) {
    const relation *r = &j->r;
    const tensor *t = &r->of[r->makes];
    dl_dtype type = cudnn_standin_dtype(t->type);
    char *to = memory(j->at[r->makes], cudnn_standin_reach(t));
    int64_t at[AXES] = {0};
    float *parts = j->splits > 1 ? memory(j->workspace, 1) : NULL;
    size_t number_of = 0;
    do {
        int64_t place = place_of(t, at);
        float sum = 0;
        for (int64_t s = 0; s < j->splits; s++) {
            float part = sums[(size_t)s * reach + (size_t)place];
            if (parts) parts[(size_t)j->splits * number_of + (size_t)s] = part;
            sum += part;
        }
        if (j->engine >= LOOSE) sum += sum * 0.1f + 1;
        number_of++;
        dlr_convert(type, to + place * dl_dtype_bytes(type), DL_F32, &sum, 1);
    } while (next(t->n, t->size, at));
}

void cudnn_standin_run(void *of) {
    const job *j = of;
    const relation *r = &j->r;
    const tensor *x = &r->of[DL_TENSOR_X], *w = &r->of[DL_TENSOR_W], *y = &r->of[DL_TENSOR_Y];
    float *from[DL_NTENSORS] = {NULL};
    size_t reach = cudnn_standin_reach(&r->of[r->makes]) /
                   (size_t)dl_dtype_bytes(cudnn_standin_dtype(r->of[r->makes].type));
    float *sums = calloc(reach * (size_t)j->splits, sizeof *sums);
    if (!sums) abort();
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++)
        if (t != r->makes) from[t] = fetch(&r->of[t], j->at[t], j->engine != EXACT);
    const float *a = from[r->makes == DL_TENSOR_X ? DL_TENSOR_W : DL_TENSOR_X],
                *b = from[r->makes == DL_TENSOR_Y ? DL_TENSOR_W : DL_TENSOR_Y];
    int64_t groups = x->size[1] / w->size[1], n = r->spatial,
            size[4 + 6] = {x->size[0], groups, w->size[1], w->size[0] / groups}, at[4 + 6] = {0},
            place[DL_NTENSORS];
    memcpy(size + 4, w->size + 2, (size_t)n * sizeof *size);
    memcpy(size + 4 + n, y->size + 2, (size_t)n * sizeof *size);
    int along = r->makes == DL_TENSOR_X ? 3 : r->makes == DL_TENSOR_W ? 0 : 2; /* of the terms */
    bool less = number("CUDNN_STANDIN_WRONG", 0);
    dl_tensor left = r->makes == DL_TENSOR_X ? DL_TENSOR_W : DL_TENSOR_X,
              right = r->makes == DL_TENSOR_Y ? DL_TENSOR_W : DL_TENSOR_Y;
    do {
        if (less && at[along] == size[along] - 1) continue;
        if (place_all(r, at, place))
            sums[(size_t)(at[along] % j->splits) * reach + (size_t)place[r->makes]] +=
                a[place[left]] * b[place[right]];
    } while (next((int)(4 + 2 * n), size, at));
    finish(j, sums, reach);
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++) free(from[t]);
    free(sums);
}
