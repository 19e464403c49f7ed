/* Convolutions as texts of graphs, for test_cuda_images.c's sources. */
#ifndef DL_CUDA_IMAGES_H
#define DL_CUDA_IMAGES_H
#include "tests/unit/mapped.h"

typedef enum { FORWARD, BY_IMAGE, BY_WEIGHT } direction;

enum { MOST_PARTS = 3 };

/* Axes of three are D, H, W, the last `windows` of them there. */
typedef struct {
    direction of;
    dl_dtype type; /* f32: in TF32 */
    int windows, n, c, o, size[3], taps[3], stride[3], low[3], high[3], dilation[3], groups;
} convolution;

/* Channels of each operand's parts, where it is a concatenation. */
typedef struct {
    int of[2][MOST_PARTS];
} division;

#define ONES                                                                                       \
    { 1, 1, 1 }
static const convolution plain = {FORWARD,   DL_BF16, 2,         3,         64,   24, {1, 7, 9},
                                  {1, 3, 3}, ONES,    {0, 1, 1}, {0, 1, 1}, ONES, 1},
                         strided = {FORWARD,   DL_BF16,     2,         2,         32,
                                    40,        {1, 11, 14}, {1, 3, 2}, {1, 2, 3}, {0, 1, 0},
                                    {0, 0, 2}, {1, 2, 3},   1},
                         by_weight = {BY_WEIGHT, DL_BF16, 2,         3,         64,   24, {1, 7, 9},
                                      {1, 3, 3}, ONES,    {0, 1, 1}, {0, 1, 1}, ONES, 1};

const char *text_of_parts(dl_arena *arena, const convolution *c, const division *parts);
const char *text_of(dl_arena *arena, const convolution *c);
void check(const char *dir, const convolution *c, const dl_target *t);
void test_cases(const char *dir, const dl_target *t);
void test_parts(const char *dir, const dl_target *t);

/* Tiles of 256 rows, of which four warps make two blocks of 64 each; an image gradient's weight of
 * 20 channels comes by cp.async. */
void test_tall(const char *dir, const dl_target *t);

/* A weight's gradient leaves out what meets the padding, an infinite gradient of y too. */
void test_padding(const dl_target *t);
void test_random(const char *dir, const dl_target *t);
void test_demands(const dl_target *t);
void test_damaged(const dl_target *t);

/* A driver without the function is no driver for such a plan. */
void test_old_driver(const dl_target *t);

/* Each is made by the driver, and its kernel fails, or its sums are wrong. */
void test_other_maps(const dl_target *t);
#endif
