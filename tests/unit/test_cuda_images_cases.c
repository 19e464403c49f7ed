/* Convolutions by im2col maps: kinds of windows, tiles and random ones, compared with the
 * interpreter. */
#include "tests/unit/cuda_images.h"

void test_cases(const char *dir, const dl_target *t) {
    static const convolution of[] = {
        /* a line of one axis; three axes, padded unlike at both ends, of other strides and dilation
         */
        {FORWARD,
         DL_F16,
         1,
         3,
         32,
         16,
         {1, 1, 45},
         {1, 1, 5},
         {1, 1, 2},
         {0, 0, 2},
         {0, 0, 1},
         {1, 1, 2},
         1},
        {FORWARD,
         DL_BF16,
         3,
         2,
         32,
         24,
         {5, 6, 7},
         {3, 2, 3},
         {1, 2, 1},
         {1, 0, 2},
         {0, 2, 1},
         {1, 2, 3},
         1},
        /* groups; rows of the image that no window reads; a window as high as the image */
        {FORWARD, DL_BF16, 2, 2, 64, 64, {1, 6, 5}, {1, 3, 3}, ONES, {0, 1, 1}, {0, 1, 1}, ONES, 2},
        {FORWARD,
         DL_F16,
         2,
         3,
         32,
         70,
         {1, 9, 8},
         {1, 2, 2},
         {1, 3, 4},
         {0, 0, 0},
         {0, 0, 0},
         ONES,
         1},
        {FORWARD, DL_BF16, 2, 5, 96, 8, {1, 3, 5}, {1, 3, 4}, ONES, {0, 0, 0}, {0, 0, 0}, ONES, 1},
        /* padding alone, at one end and beyond what the window needs */
        {FORWARD, DL_BF16, 2, 1, 32, 16, {1, 3, 3}, {1, 2, 2}, ONES, {0, 3, 0}, {0, 0, 4}, ONES, 1},
        {FORWARD, DL_F32, 2, 2, 48, 20, {1, 7, 6}, {1, 3, 3}, ONES, {0, 1, 1}, {0, 1, 1}, ONES, 1},
        /* of one tap, images that are matrices, too */
        {FORWARD, DL_BF16, 2, 2, 96, 40, {1, 7, 6}, ONES, ONES, {0, 0, 0}, {0, 0, 0}, ONES, 1},
        {BY_IMAGE, DL_BF16, 2, 3, 24, 32, {1, 5, 9}, ONES, ONES, {0, 0, 0}, {0, 0, 0}, ONES, 1},
        {BY_WEIGHT, DL_F16, 2, 2, 64, 70, {1, 9, 8}, ONES, ONES, {0, 0, 0}, {0, 0, 0}, ONES, 1},
        {BY_IMAGE,
         DL_BF16,
         2,
         2,
         24,
         32,
         {1, 7, 9},
         {1, 3, 3},
         ONES,
         {0, 1, 1},
         {0, 1, 1},
         ONES,
         1},
        {BY_IMAGE,
         DL_F16,
         3,
         1,
         16,
         32,
         {4, 5, 6},
         {2, 3, 1},
         ONES,
         {1, 0, 0},
         {0, 1, 0},
         {1, 2, 1},
         1},
        {BY_IMAGE,
         DL_BF16,
         2,
         2,
         64,
         64,
         {1, 6, 5},
         {1, 2, 3},
         ONES,
         {0, 1, 1},
         {0, 0, 1},
         ONES,
         2},
        /* of four and eight parities, which have as many positions and taps each */
        {BY_IMAGE,
         DL_BF16,
         2,
         3,
         24,
         32,
         {1, 10, 8},
         {1, 4, 2},
         {1, 2, 2},
         {0, 1, 0},
         {0, 1, 0},
         ONES,
         1},
        {BY_IMAGE, DL_F16, 3, 2, 16, 32, {4, 6, 8}, {4, 4, 4}, {2, 2, 2}, ONES, ONES, ONES, 1},
        {BY_IMAGE,
         DL_BF16,
         2,
         1,
         16,
         32,
         {1, 9, 8},
         {1, 6, 3},
         {1, 3, 1},
         {0, 2, 1},
         {0, 1, 1},
         {1, 1, 2},
         1},
        {BY_WEIGHT,
         DL_F16,
         2,
         2,
         128,
         70,
         {1, 9, 8},
         {1, 2, 3},
         {1, 2, 3},
         {0, 1, 0},
         {0, 0, 2},
         ONES,
         1},
        {BY_WEIGHT,
         DL_BF16,
         3,
         2,
         64,
         24,
         {3, 5, 6},
         {2, 3, 2},
         ONES,
         {1, 1, 0},
         {0, 1, 1},
         {1, 2, 1},
         1},
        {BY_WEIGHT,
         DL_BF16,
         1,
         3,
         64,
         40,
         {1, 1, 61},
         {1, 1, 3},
         ONES,
         {0, 0, 1},
         {0, 0, 1},
         ONES,
         1},
        {BY_WEIGHT,
         DL_BF16,
         2,
         2,
         128,
         64,
         {1, 6, 5},
         {1, 3, 3},
         ONES,
         {0, 1, 1},
         {0, 1, 1},
         ONES,
         2}};
    check(dir, &plain, t), check(dir, &strided, t), check(dir, &by_weight, t);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (dl_test_takes((unsigned)i)) check(dir, &of[i], t);
}

void test_tall(const char *dir, const dl_target *t) {
    static const char *const ways[] = {"256x128 by TMA (im2col) and wgmma",
                                       "256x64 by TMA (im2col) and wgmma"};
    static const struct {
        convolution c;
        int way;
    } tall[] = {
        {{FORWARD,
          DL_BF16,
          2,
          5,
          64,
          40,
          {1, 7, 9},
          {1, 3, 3},
          ONES,
          {0, 1, 1},
          {0, 1, 1},
          ONES,
          1},
         1},
        {{FORWARD, DL_F32, 2, 5, 16, 40, {1, 8, 9}, {1, 3, 3}, ONES, {0, 1, 1}, {0, 1, 1}, ONES, 1},
         1},
        {{BY_IMAGE,
          DL_BF16,
          2,
          9,
          20,
          32,
          {1, 12, 12},
          {1, 4, 2},
          {1, 2, 2},
          {0, 1, 0},
          {0, 1, 0},
          ONES,
          1},
         1},
        {{BY_WEIGHT,
          DL_F16,
          2,
          2,
          64,
          264,
          {1, 9, 8},
          {1, 2, 3},
          {1, 2, 3},
          {0, 1, 0},
          {0, 0, 2},
          ONES,
          1},
         0}};
    const char *way = mapped_way;
    for (size_t i = 0; i < sizeof tall / sizeof *tall; i++) {
        mapped_way = ways[tall[i].way];
        if (dl_test_takes((unsigned)i)) check(dir, &tall[i].c, t);
    }
    mapped_way = way;
}

void test_random(const char *dir, const dl_target *t) {
    rng r = {5};
    for (int i = 0; i < 12; i++) {
        convolution c = {
            .of = i % 3, .type = i % 2 ? DL_BF16 : DL_F16, .windows = 1 + i / 3 % 3, .groups = 1};
        c.n = pick(&r, 1, 4), c.c = 32 * pick(&r, 1, 3), c.o = 8 * pick(&r, 1, 9);
        if (c.of == BY_IMAGE) c.o = 32 * pick(&r, 1, 2);
        if (c.of == BY_WEIGHT) c.c = 64;
        for (int a = 0; a < 3; a++) {
            bool here = a >= 3 - c.windows, strides = here && c.of != BY_IMAGE;
            c.size[a] = here ? pick(&r, 3, c.windows == 1 ? 90 : 9) : 1;
            c.taps[a] = here ? pick(&r, 1, 3) : 1, c.dilation[a] = here ? pick(&r, 1, 2) : 1;
            c.stride[a] = strides ? pick(&r, 1, 3) : 1;
            c.low[a] = here ? pick(&r, 0, 2) : 0, c.high[a] = here ? pick(&r, 1, 2) : 0;
        }
        if (c.windows > 1) c.taps[2] = 3; /* else it may be a matrix */
        if (c.windows == 1) c.taps[2] = 4;
        if (dl_test_takes((unsigned)i)) check(dir, &c, t);
    }
}
