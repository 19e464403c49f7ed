/* A long axis in pieces (runtime/predict/tiles.h), of many sizes. Exact pieces: one piece makes an
 * output position, and has all input positions that the output sees. Blended ones: pieces overlap
 * by half, and the weights of a position add up to one and fall as the header says. */
#include "runtime/predict/tiles.h"

#include "tests/check.h"

/* A model with `num` input positions for `den` of its output. It takes sizes that are a tile and a
 * multiple of `step` more. An output sees from `lo` to `hi` positions after the one where it lies.
 */
typedef struct {
    int64_t num, den, step;
    double lo, hi;
} model;

/* Does a piece have all that the output position `o` of the whole axis sees, but what is beyond the
 * axis? */
static bool sees_all(const dlr_axis *a, const dlr_tile *p, int64_t o) {
    double at = (double)(o * a->num) / (double)a->den, end = (double)(a->whole - 1);
    double first = fmax(at + a->lo, 0), last = fmin(at + a->hi, end);
    return first >= (double)p->start - 1e-6 && last <= (double)(p->start + a->tile - 1) + 1e-6;
}

static void check_exact(const dlr_axis *a, const dlr_tiles *t) {
    int wrong = 0, unseen = 0;
    for (int64_t o = 0; o < t->whole; o++) {
        int made = 0;
        for (int i = 0; i < t->pieces.n; i++) {
            const dlr_tile *p = &t->pieces.at[i];
            if (o < p->begin + p->from || o >= p->begin + p->to) continue;
            made++, unseen += !sees_all(a, p, o), wrong += p->weight[o - p->begin] != 1;
        }
        wrong += made != 1;
    }
    CHECK(!wrong && !unseen, "%d of %d, num %d, den %d, sees %g to %g: %d wrong, %d see too little",
          (int)a->whole, (int)a->tile, (int)a->num, (int)a->den, a->lo, a->hi, wrong, unseen);
}

/* The height, in the middle of a position, of a triangle over the piece; towards the axis' own ends
 * it is flat. */
static double triangle(const dlr_tiles *t, int i, int64_t o) {
    double middle = (double)o + 0.5, size = (double)t->tile, height = 1;
    if (i > 0 && middle < size / 2) height = middle / (size / 2);
    if (i + 1 < t->pieces.n && middle > size / 2) height = (size - middle) / (size / 2);
    return height;
}

static void check_blended(const dlr_axis *a, const dlr_tiles *t) {
    double off = 0;
    int uncovered = 0, apart = 0;
    for (int i = 1; i < t->pieces.n; i++)
        apart += t->pieces.at[i].start - t->pieces.at[i - 1].start > a->tile / 2;
    CHECK(!apart, "%d of %d: %d pieces overlap by less than half", (int)a->whole, (int)a->tile,
          apart);
    for (int64_t o = 0; o < t->whole; o++) {
        double sum = 0, heights = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < t->pieces.n; i++) {
                const dlr_tile *p = &t->pieces.at[i];
                if (o < p->begin || o >= p->begin + t->tile) continue;
                double height = triangle(t, i, o - p->begin);
                if (!pass) heights += height;
                if (pass) sum += (double)p->weight[o - p->begin];
                if (pass)
                    off = dl_test_worse(off,
                                        fabs((double)p->weight[o - p->begin] - height / heights));
            }
        uncovered += fabs(sum - 1) > 1e-6;
    }
    CHECK(!uncovered && off < 1e-6,
          "%d of %d, num %d, den %d: %d are not made, weights are off by %g", (int)a->whole,
          (int)a->tile, (int)a->num, (int)a->den, uncovered, off);
}

/* All sizes that the model takes up to five tiles. */
static void check_model(const model *m) {
    int fine[2] = {0};
    for (int exact = 0; exact < 2; exact++)
        for (int64_t tile = 8; tile <= 24; tile += 8)
            for (int64_t whole = tile; whole <= 5 * tile; whole += m->step) {
                dl_arena *arena = dl_arena_new(NULL);
                dl_error err = {0};
                dlr_axis a = {whole, tile, m->num, m->den, exact, m->step, m->lo, m->hi};
                dlr_tiles t;
                bool made = dlr_tiles_make(arena, &a, &t, &err);
                CHECK(made || (exact && strstr(err.message, "too many for pieces")), "%s",
                      err.message);
                CHECK(!made ||
                          (t.whole == whole * m->den / m->num && t.tile == tile * m->den / m->num),
                      "sizes");
                if (made) (exact ? check_exact : check_blended)(&a, &t);
                fine[exact] += made && t.pieces.n > 2;
                dl_arena_free(arena);
            }
    CHECK(fine[0] > 10 && fine[1] > 3, "%d blended, %d exact ones of more than two pieces", fine[0],
          fine[1]);
}

static void test_refused(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dlr_tiles t;
    CHECK(!dlr_tiles_make(arena, &(dlr_axis){7, 8, 1, 1, false, 1, 0, 0}, &t, &err) &&
              strstr(err.message, "7 positions are fewer than the 8"),
          "%s", err.message);
    err = (dl_error){0};
    CHECK(!dlr_tiles_make(arena, &(dlr_axis){71, 24, 1, 1, true, 6, -1, 1}, &t, &err) &&
              strstr(err.message, "multiple of 6 (66 would do)"),
          "%s", err.message);
    dl_arena_free(arena);
}

int main(void) {
    static const model models[] = {{1, 1, 1, 0, 0},   {1, 1, 1, -1, 1}, {1, 1, 1, -3, 2},
                                   {1, 1, 4, -2, 3},  {2, 1, 2, 0, 1},  {2, 1, 4, -1, 2},
                                   {1, 2, 1, -1, 1.5}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(&models[i]);
    test_refused();
    return dl_test_end();
}
