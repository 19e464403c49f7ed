#include "runtime/predict/tiles.h"

#include <math.h>

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Pieces at 0, stride, 2 stride, ..., the last where the axis ends. */
static void place(dl_arena *arena, const dlr_axis *a, int64_t stride, dlr_tiles *t) {
    int64_t last = a->whole - a->tile;
    for (int64_t start = 0; start < last; start += stride)
        dl_push(arena, &t->pieces, (dlr_tile){.start = start});
    dl_push(arena, &t->pieces, (dlr_tile){.start = last});
    for (int i = 0; i < t->pieces.n; i++)
        t->pieces.at[i].begin = t->pieces.at[i].start * a->den / a->num;
}

static bool check(const dlr_axis *a, int64_t step, dl_error *err) {
    if (a->whole < a->tile)
        return dl_fail(err, DL_INPUT, "%lld positions are fewer than the %lld of the model's input",
                       (long long)a->whole, (long long)a->tile);
    if (a->tile * a->den % a->num || (a->whole - a->tile) % step)
        return dl_fail(
            err, DL_INPUT,
            "%lld positions do not go with the model's input of %lld: they must be that many and a "
            "multiple of %lld (%lld would do)",
            (long long)a->whole, (long long)a->tile, (long long)step,
            (long long)(a->whole - (a->whole - a->tile) % step));
    return true;
}

/* Positions of a piece that see nothing beyond its edges go to it, as far as the one before has not
 * got them. */
static bool discard(dl_arena *arena, const dlr_axis *a, dlr_tiles *t, dl_error *err) {
    double s = (double)a->num / (double)a->den;
    if (!check(a, a->step, err)) return false;
    int64_t from = max(0, (int64_t)ceil(-a->lo / s - 1e-9));
    int64_t to = min(t->tile, (int64_t)floor(((double)a->tile - 1 - a->hi) / s + 1e-9) + 1);
    int64_t stride = to > from ? (to - from) * a->num / a->den / a->step * a->step : 0;
    if (stride < 1 && a->whole > a->tile)
        return dl_fail(
            err, DL_INPUT,
            "an output sees %.0f positions, too many for pieces of %lld that begin at multiples of "
            "%lld",
            floor(a->hi - a->lo) + 1, (long long)a->tile, (long long)a->step);
    place(arena, a, max(stride, 1), t);
    dlr_tile *piece = t->pieces.at;
    for (int i = 0; i < t->pieces.n; i++) {
        piece[i].from = i ? from : 0;
        piece[i].to = i + 1 < t->pieces.n ? piece[i + 1].begin + from - piece[i].begin : t->tile;
    }
    return true;
}

static bool blend(dl_arena *arena, const dlr_axis *a, dlr_tiles *t, dl_error *err) {
    if (!check(a, a->num, err)) return false;
    int64_t stride = max(a->tile / 2 / a->num * a->num, a->num);
    place(arena, a, stride, t);
    for (int i = 0; i < t->pieces.n; i++) t->pieces.at[i].to = t->tile;
    return true;
}

/* Rising from the edge over half a piece, and falling likewise; flat towards the axis' own ends. */
static double slope(const dlr_tiles *t, int i, int64_t o) {
    double half = (double)t->tile / 2, w = 1;
    if (i > 0) w = fmin(w, ((double)o + 0.5) / half);
    if (i + 1 < t->pieces.n) w = fmin(w, ((double)(t->tile - o) - 0.5) / half);
    return w;
}

static void weigh(dl_arena *arena, const dlr_axis *a, dlr_tiles *t) {
    double *sum = DL_NEWS(arena, double, t->whole + 1);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < t->pieces.n; i++) {
            dlr_tile *p = &t->pieces.at[i];
            float *weight = pass ? DL_NEWS(arena, float, t->tile + 1) : NULL;
            for (int64_t o = p->from; o < p->to; o++) {
                double w = a->exact ? 1 : slope(t, i, o);
                if (pass)
                    weight[o] = (float)(w / sum[p->begin + o]);
                else
                    sum[p->begin + o] += w;
            }
            p->weight = weight;
        }
}

bool dlr_tiles_make(dl_arena *arena, const dlr_axis *a, dlr_tiles *t, dl_error *err) {
    *t = (dlr_tiles){.whole = a->whole * a->den / a->num, .tile = a->tile * a->den / a->num};
    if (!(a->exact ? discard : blend)(arena, a, t, err)) return false;
    weigh(arena, a, t);
    return true;
}
