/* Convolutions by im2col maps whose operands are concatenations. */
#include "tests/unit/cuda_images.h"

/* Concatenations: each part by a map of its own, images and matrices of a weight's gradient and of
 * 1 x 1; and a weight by its taps, next to the image of its gradient. */
typedef struct {
    convolution c;
    division parts;
    int maps;
} divided;

static void check_parts(const char *dir, const divided *d, const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = text_of_parts(arena, &d->c, &d->parts);
    const dl_plan_entry *e = entry_with_maps(mapped_plan(arena, text, t, false));
    CHECK(e && e->maps.n == d->maps, "%d maps: %s", e ? e->maps.n : 0, text);
    mapped_check(dir, text, t, d->maps);
    dl_arena_free(arena);
}

void test_parts(const char *dir, const dl_target *t) {
    static const divided of[] = {
        {{FORWARD,
          DL_BF16,
          2,
          3,
          96,
          24,
          {1, 7, 9},
          {1, 3, 3},
          ONES,
          {0, 1, 1},
          {0, 1, 1},
          ONES,
          1},
         {{{32, 64}}},
         3},
        {{FORWARD,
          DL_F16,
          3,
          1,
          128,
          40,
          {4, 5, 6},
          {2, 3, 2},
          {1, 2, 1},
          {1, 0, 1},
          {0, 1, 0},
          ONES,
          1},
         {{{32, 64, 32}}},
         4},
        {{FORWARD,
          DL_F32,
          1,
          2,
          48,
          20,
          {1, 1, 45},
          {1, 1, 4},
          {1, 1, 2},
          {0, 0, 2},
          {0, 0, 1},
          ONES,
          1},
         {{{16, 32}}},
         3},
        {{BY_IMAGE, DL_BF16, 3, 2, 70, 96, {4, 6, 8}, {4, 4, 4}, {2, 2, 2}, ONES, ONES, ONES, 1},
         {{{64, 32}}},
         2},
        {{BY_IMAGE, DL_BF16, 3, 2, 72, 96, {4, 6, 8}, {4, 4, 4}, {2, 2, 2}, ONES, ONES, ONES, 1},
         {{{64, 32}}},
         3},
        {{BY_IMAGE,
          DL_F16,
          2,
          3,
          136,
          128,
          {1, 9, 8},
          {1, 6, 3},
          {1, 3, 1},
          {0, 2, 1},
          {0, 1, 1},
          {1, 1, 2},
          1},
         {{{32, 32, 64}}},
         4},
        {{BY_WEIGHT,
          DL_BF16,
          2,
          3,
          192,
          24,
          {1, 7, 9},
          {1, 3, 3},
          ONES,
          {0, 1, 1},
          {0, 1, 1},
          ONES,
          1},
         {{{128, 64}}},
         4},
        {{BY_WEIGHT,
          DL_F16,
          3,
          2,
          64,
          200,
          {3, 5, 6},
          {2, 3, 2},
          ONES,
          {1, 1, 0},
          {0, 1, 1},
          ONES,
          1},
         {{{0}, {64, 128, 8}}},
         5},
        {{BY_WEIGHT,
          DL_BF16,
          1,
          3,
          128,
          96,
          {1, 1, 61},
          {1, 1, 3},
          {1, 1, 2},
          {0, 0, 1},
          {0, 0, 1},
          ONES,
          1},
         {{{64, 64}, {64, 32}}},
         4}};
    static const divided by_points = {
        {FORWARD, DL_BF16, 2, 2, 160, 40, {1, 6, 5}, ONES, ONES, {0, 0, 0}, {0, 0, 0}, ONES, 1},
        {{{32, 128}}},
        3};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (dl_test_takes((unsigned)i)) check_parts(dir, &of[i], t);
    const char *way = mapped_way;
    mapped_way = "TMA";
    check_parts(dir, &by_points, t);
    mapped_way = way;
}
