/* Convolutions whose image comes by a tensor map of images (TMA's im2col mode), as plans of their
 * own: beside the interpreter, forward and both gradients, at small awkward sizes; what has no such
 * way; maps that are refused, and maps that tell other pixels, which are found. Exit 77 (skip)
 * without a C++ compiler. */
#include "compiler/cuda/nvrtc.h"
#include "tests/emulator/cuda_emulator.h"
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

static int out_of(const convolution *c, int i) {
    return (c->size[i] + c->low[i] + c->high[i] - (c->taps[i] - 1) * c->dilation[i] - 1) /
               c->stride[i] +
           1;
}

/* "[1, 2]", of the axes that are there. */
static const char *list(dl_arena *arena, const convolution *c, const int *of) {
    const char *text = "";
    for (int i = 3 - c->windows; i < 3; i++)
        text = dl_format(arena, "%s%s%d", text, *text ? ", " : "", of[i]);
    return dl_format(arena, "[%s]", text);
}

/* "bf16[N=2, C=32, H=5, W=7]", its axes called by those letters. */
static const char *type_of(dl_arena *arena, const convolution *c, const char *first, int a,
                           const char *second, int b, const char *k, const int *of) {
    const char *text =
        dl_format(arena, "%s[%s=%d, %s=%d", dl_dtype_name(c->type), first, a, second, b);
    for (int i = 3 - c->windows; i < 3; i++)
        text = dl_format(arena, "%s, %s%c=%d", text, k, "DHW"[i], of[i]);
    return dl_format(arena, "%s]", text);
}

/* Inputs of an operand, whose names begin with that letter, and the node that joins them: its name.
 */
static const char *join(dl_arena *arena, const char **text, const convolution *c, char letter,
                        const int *parts, const int *size, int *value) {
    if (!parts[0]) return dl_format(arena, "$%c", letter);
    const char *all = "";
    int n = 0, sum = 0;
    for (; n < MOST_PARTS && parts[n]; n++) {
        const char *name = n ? dl_format(arena, "%c%d", letter, n) : dl_format(arena, "%c", letter);
        *text = dl_format(arena, "%s  input $%s = %%%d : %s\n", *text, name, (*value)++,
                          type_of(arena, c, "N", c->n, "C", parts[n], "", size));
        all = dl_format(arena, "%s%s$%s", all, n ? ", " : "", name), sum += parts[n];
    }
    *text = dl_format(arena, "%s  %%%d = cat %s {axis=C} : %s\n", *text, *value, all,
                      type_of(arena, c, "N", c->n, "C", sum, "", size));
    return dl_format(arena, "%%%d", (*value)++);
}

static const char *text_of_parts(dl_arena *arena, const convolution *c, const division *parts) {
    static const char *const ops[] = {"conv", "conv_grad_input", "conv_grad_weight"};
    int out[3];
    for (int i = 0; i < 3; i++) out[i] = out_of(c, i);
    const char *x = type_of(arena, c, "N", c->n, "C", c->c, "", c->size),
               *y = type_of(arena, c, "N", c->n, "C", c->o, "", out),
               *w = type_of(arena, c, "O", c->o, "C", c->c / c->groups, "k", c->taps);
    const char *a = c->of == BY_IMAGE ? y : x, *b = c->of == BY_WEIGHT ? y : w,
               *to = c->of == FORWARD    ? y
                     : c->of == BY_IMAGE ? x
                                         : w;
    const char *made = c->of == FORWARD
                           ? ""
                           : dl_format(arena, ", %s=%s", c->of == BY_IMAGE ? "size" : "kernel",
                                       list(arena, c, c->of == BY_IMAGE ? c->size : c->taps));
    const char *inputs = "", *left, *right;
    int value = 0;
    if (!parts->of[0][0]) inputs = dl_format(arena, "  input $x = %%%d : %s\n", value++, a);
    if (!parts->of[1][0])
        inputs = dl_format(arena, "%s  input $v = %%%d : %s\n", inputs, value++, b);
    left = join(arena, &inputs, c, 'x', parts->of[0], c->of == BY_IMAGE ? out : c->size, &value);
    right = join(arena, &inputs, c, 'v', parts->of[1], out, &value);
    return dl_format(
        arena,
        "graph @predict {\n%s"
        "  %%%d = %s %s, %s {stride=%s, pad_lo=%s, pad_hi=%s, dilation=%s, groups=%d%s} : %s\n"
        "  %%%d = relu %%%d : %s\n  output \"y\" = %%%d\n}\n",
        inputs, value, ops[c->of], left, right, list(arena, c, c->stride), list(arena, c, c->low),
        list(arena, c, c->high), list(arena, c, c->dilation), c->groups, made, to, value + 1, value,
        to, value + 1);
}

static const char *text_of(dl_arena *arena, const convolution *c) {
    return text_of_parts(arena, c, &(division){0});
}

#define ONES                                                                                       \
    { 1, 1, 1 }
static const convolution plain = {FORWARD,   DL_BF16, 2,         3,         64,   24, {1, 7, 9},
                                  {1, 3, 3}, ONES,    {0, 1, 1}, {0, 1, 1}, ONES, 1},
                         strided = {FORWARD,   DL_BF16,     2,         2,         32,
                                    40,        {1, 11, 14}, {1, 3, 2}, {1, 2, 3}, {0, 1, 0},
                                    {0, 0, 2}, {1, 2, 3},   1},
                         by_weight = {BY_WEIGHT, DL_BF16, 2,         3,         64,   24, {1, 7, 9},
                                      {1, 3, 3}, ONES,    {0, 1, 1}, {0, 1, 1}, ONES, 1};

static void check(const char *dir, const convolution *c, const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    mapped_check(dir, text_of(arena, c), t, DL_MAP_MOST);
    dl_arena_free(arena);
}

static void test_cases(const char *dir, const dl_target *t) {
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

/* Concatenations: each part by a map of its own, images and matrices of a weight's gradient and of
 * 1 x 1; and a weight by its taps, beside the image of its gradient. */
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

static void test_parts(const char *dir, const dl_target *t) {
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

/* Tiles of 256 rows, of which four warps make two blocks of 64 each; an image gradient's weight of
 * 20 channels comes by cp.async. */
static void test_tall(const char *dir, const dl_target *t) {
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

/* Two convolutions whose code is one function, which takes what differs as numbers: places of
 * positions and taps, too. */
static void test_folded(const char *dir, const dl_target *t) {
    static const char text[] =
        "graph @predict {\n  input $x = %0 : bf16[N=2, C=32, H=9, W=10]\n"
        "  input $v = %1 : bf16[O=32, C=32, kH=3, kW=3]\n"
        "  %2 = conv $x, $v {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : bf16[N=2, C=32, H=9, "
        "W=10]\n"
        "  %3 = sign %2 : bf16[N=2, C=32, H=9, W=10]\n"
        "  %4 = conv %3, $v {stride=[2, 1], pad_lo=[2, 0], pad_hi=[1, 3]} : bf16[N=2, C=32, H=5, "
        "W=11]\n"
        "  %5 = sign %4 : bf16[N=2, C=32, H=5, W=11]\n  output \"y\" = %5\n}\n";
    dl_arena *arena = dl_arena_new(NULL);
    const dl_plan *p = mapped_plan(arena, text, t, false);
    const char *symbol = "";
    int same = 0;
    for (int i = 0; p && i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].entries.n; j++) {
            const dl_plan_entry *e = &p->kernels.at[i].entries.at[j];
            if (e->maps.n == 0) continue;
            CHECK(strstr(p->kernels.at[i].variant, "im2col"), "%s", p->kernels.at[i].variant);
            same += strcmp(e->symbol, symbol) == 0 && e->numbers.n > 0, symbol = e->symbol;
        }
    CHECK(same == 1, "%d share their code", same);
    mapped_check(dir, text, t, 3);
    dl_arena_free(arena);
}

static dl_tensor_map *map_of(const dl_plan *p) {
    dl_plan_entry *e = entry_with_maps(p);
    for (int i = 0; e && i < e->maps.n; i++)
        if (e->maps.at[i].windows) return &e->maps.at[i];
    CHECK(e == NULL, "no map of images");
    return NULL;
}

/* A weight's gradient leaves out what meets the padding, an infinite gradient of y too. */
static void test_padding(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text = text_of(arena, &by_weight);
    dl_plan *p = mapped_plan(arena, text, t, true);
    mapped_numbers all = mapped_interpret(arena, text, 1, 24 * 63); /* a corner of an image */
    int64_t finite = 0, wrong = mapped_wrong(p, &all, &err);
    for (int64_t i = 0; i < all.n; i++) finite += isfinite(all.want[i]);
    CHECK(wrong == 0 && finite > 0 && finite < all.n && map_of(p), "%lld wrong, %lld finite: %s",
          (long long)wrong, (long long)finite, err.message);
    mapped_free(&all);
    dl_arena_free(arena);
}

static void test_random(const char *dir, const dl_target *t) {
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

/* ---- what has no such way ---- */

static void test_demands(const dl_target *t) {
    convolution of[9];
    int n = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        of[i] = i == 7 ? by_weight : i == 8 ? strided : plain;
    of[n++].c = 40;     /* a tile's terms would be two taps' */
    of[n++].groups = 8; /* of 8 channels each */
    of[n].size[1] = 20, of[n++].stride[1] = 9;
    of[n].low[1] = 129, of[n++].size[1] = 3; /* a corner of more than 8 bits */
    of[n].size[2] = 300, of[n++].dilation[2] = 128;
    of[n].of = BY_IMAGE, of[n].o = 32, of[n++].stride[1] = 2; /* parities of unlike taps */
    of[n].windows = 3, of[n].size[0] = 40, of[n].dilation[0] = 16, of[n].taps[0] = 3, n++;
    of[n++].c = 96;
    of[n++].type = DL_F32, of[8].of = BY_WEIGHT, of[8].c = 64; /* nothing turns floats */
    for (int i = 0; i < n; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        const dl_plan *p = mapped_plan(arena, text_of(arena, &of[i]), t, false);
        const char *variant = p ? p->kernels.at[p->kernels.n - 1].variant : "";
        CHECK(p && !(variant && strstr(variant, "im2col")), "%d: %s", i, variant);
        dl_arena_free(arena);
    }
    static const division parts[] = {
        {{{48, 16}}}, {{{16, 48}}}, {{{96, 32}}}}; /* a box would be of both */
    for (int i = 0; i < 3; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        convolution c = i == 2 ? by_weight : plain;
        if (i == 2) c.c = 128;
        const dl_plan *p = mapped_plan(arena, text_of_parts(arena, &c, &parts[i]), t, false);
        const char *variant = p ? p->kernels.at[p->kernels.n - 1].variant : "";
        CHECK(p && !(variant && strstr(variant, "im2col")), "%d: %s", i, variant);
        dl_arena_free(arena);
    }
    dl_target without = *t;
    without.has_maps = false;
    dl_arena *arena = dl_arena_new(NULL);
    CHECK(!entry_with_maps(mapped_plan(arena, text_of(arena, &plain), &without, false)));
    dl_arena_free(arena);
}

static void test_damaged(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = mapped_plan(arena, text_of(arena, &plain), t, true);
    dl_tensor_map *m = map_of(p), good = m ? *m : (dl_tensor_map){0};
    CHECK(dl_plan_check(p, &(dl_error){0}));
    for (int i = 0; m && i < 14; i++) {
        dl_error err = {0};
        *m = good;
        if (i == 0) m->windows = 4;
        if (i == 1) m->windows = 1;
        if (i == 2) m->low[0] = -129;
        if (i == 3) m->low[1] = 128;
        if (i == 4) m->high[0] = 128;
        if (i == 5) m->high[1] = -129;
        if (i == 6) m->hop[0] = 0;
        if (i == 7) m->hop[1] = 9;
        if (i == 8) m->low[0] = 9; /* a box of no pixels */
        if (i == 9) m->box[2] = 2;
        if (i == 10) m->size[3]++;
        if (i == 11) m->step[2] += 8;
        if (i == 12) m->hop[2] = 1;
        if (i == 13) m->box[1] = 257;
        CHECK(!dl_plan_check(p, &err) && strstr(err.message, "entry"), "%d: %s", i, err.message);
    }
    dl_arena_free(arena);
}

/* A driver without the function is no driver for such a plan. */
static void test_old_driver(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_plan *p = mapped_plan(arena, text_of(arena, &plain), t, true);
    emulator()->set((cuda_emulator_options){.no_images = true});
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err) : NULL;
    CHECK(!exec && err.code == DL_RESOURCE && strstr(err.message, "cuTensorMapEncodeIm2col"), "%s",
          err.message);
    dlr_exec_close(exec);
    emulator()->set((cuda_emulator_options){0});
    dl_arena_free(arena);
}

/* ---- maps of other pixels ---- */

/* Each is made by the driver, and its kernel fails, or its sums are wrong. */
static void test_other_maps(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = text_of(arena, &strided);
    dl_plan *p = mapped_plan(arena, text, t, true);
    dl_tensor_map *m = map_of(p), good = m ? *m : (dl_tensor_map){0};
    mapped_numbers all = mapped_interpret(arena, text, -1, 1);
    for (int i = 0; m && i < 15; i++) {
        dl_error err = {0};
        *m = good;
        if (i == 1) m->low[0]--;
        if (i == 2) m->low[1]++;
        if (i == 3) m->high[0] += m->hop[0];
        if (i == 4) m->high[1] -= m->hop[1];
        if (i == 5) m->hop[0]--;
        if (i == 6) m->hop[1]--;
        if (i == 7) m->box[1] /= 2;
        if (i == 8) m->size[1] -= 2, m->high[0] += 2;
        if (i == 9) m->size[2] -= 2, m->high[1] += 2;
        if (i == 10) m->size[3]--;
        if (i == 11) m->size[0] -= 8;
        if (i == 12) m->offset += 16, m->size[3]--;
        if (i == 13) m->low[0] = m->low[1], m->low[1] = good.low[0]; /* axes the other way round */
        if (i == 14) m->hop[0] = m->hop[1], m->hop[1] = good.hop[0];
        CHECK(dl_plan_check(p, &err), "%d: %s", i, err.message);
        int64_t wrong = mapped_wrong(p, &all, &err);
        CHECK(i ? wrong != 0 : wrong == 0, "%d: %lld %s", i, (long long)wrong, err.message);
        if (getenv("DL_TEST_SHOW")) printf("map %d: %lld %s\n", i, (long long)wrong, err.message);
    }
    mapped_free(&all);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_images_XXXXXX";
    dl_error err = {0};
    if (!test_cache(dir)) return 1;
    const dl_target *t = mapped_target(&err);
    if (!t) {
        dl_test_skip("%s", err.message);
        return 77;
    }
    mapped_way = "im2col";
    test_demands(t);
    test_damaged(t);
    test_old_driver(t);
    test_other_maps(t);
    test_cases(dir, t);
    test_parts(dir, t);
    test_tall(dir, t);
    test_folded(dir, t);
    test_padding(t);
    test_random(dir, t);
    return dl_test_end();
}
