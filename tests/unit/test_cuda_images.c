/* Convolutions whose image comes by a tensor map of images (TMA's im2col mode), as plans of their
 * own: compared with the interpreter, forward and both gradients, at small awkward sizes; what has
 * no such way; maps that are refused, and maps that tell other pixels, which are found. Exit 77
 * (skip) without a C++ compiler. */
#include "tests/unit/cuda_images.h"

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

const char *text_of_parts(dl_arena *arena, const convolution *c, const division *parts) {
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

const char *text_of(dl_arena *arena, const convolution *c) {
    return text_of_parts(arena, c, &(division){0});
}

void check(const char *dir, const convolution *c, const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    mapped_check(dir, text_of(arena, c), t, DL_MAP_MOST);
    dl_arena_free(arena);
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
