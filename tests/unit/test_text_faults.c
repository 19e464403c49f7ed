/* Texts of the IR that are refused, with the place and the reason. */
#include "tests/unit/text_module.h"

#include "tests/check.h"

/* --- faults --- */

#define GRAPH(body) "graph @g {\n  input $x = %0 : f32[N=2, C=3]\n" body "\n}\n"
#define KERNEL(body)                                                                               \
    "kernel @k(%a: f32[C=3], %w: f32[O=2, C=3, kW=1]) -> (%o: f32[C=3]) space(C=3, W=4) {\n" body  \
    "\n}\ngraph @g {\n}\n"

static const struct {
    const char *text, *message;
} faults[] = {
    {"", "1:1: no graph in this text"},
    {"grph @g {\n}\n", "1:1: expected 'graph', 'body' or 'kernel', found 'grph'"},
    {"graph g {\n}\n", "1:7: expected the graph's name (@train), found 'g'"},
    {"graph @g {\n", "2:1: expected a statement or '}', found the end of the text"},
    {"graph @g { input $x = %0 : f32[]\n}\n", "1:12: expected the end of the line, found 'input'"},
    {"graph @g {\n}\ngraph @g {\n}\n", "3:7: graph @g stands there twice"},
    {GRAPH("  %1 = conw $x : f32[]"), "3:8: unknown op 'conw'; did you mean 'conv'?"},
    {GRAPH("  %1 = abs $x : f33[]"), "3:17: unknown element type 'f33'; did you mean 'f32'?"},
    {GRAPH("  %1 = abs $y : f32[]"), "3:12: no variable $y is declared above"},
    {GRAPH("  %1 = abs %7 : f32[]"), "3:12: no value %7 is made above"},
    {GRAPH("  %1 = abs %0 : f32[]"), "3:12: %0 is a variable: write $x"},
    {GRAPH("  %1 = abs %1 : f32[]"), "3:12: no value %1 is made above"},
    {GRAPH("  %0 = abs $x : f32[]"), "3:3: %0 is made twice"},
    {GRAPH("  %1, %1 = abs $x : f32[]"), "3:7: %1 is made twice"},
    {GRAPH("  %1, %2 = abs $x : f32[], f32[]"), "3:12: abs makes one value, found 2"},
    {GRAPH("  %4194304 = abs $x : f32[]"),
     "3:3: a value is a number below 4194304, found %4194304"},
    {GRAPH("  %01 = abs $x : f32[]"), "3:3: a value is a number below 4194304, found %01"},
    {GRAPH("  %1 = add $x : f32[]"), "3:8: add takes 2 operands, found 1"},
    {GRAPH("  %1 = abs $x, $x : f32[]"), "3:8: abs takes 1 operand, found 2"},
    {GRAPH("  %1 = leaky_relu $x : f32[]"), "3:22: leaky_relu lacks its attribute 'slope'"},
    {GRAPH("  %1 = leaky_relu $x {slop=1} : f32[]"),
     "3:23: leaky_relu has no attribute 'slop'; did you mean 'slope'?"},
    {GRAPH("  %1 = leaky_relu $x {slope=1, slope=2} : f32[]"),
     "3:32: attribute 'slope' stands there twice"},
    {GRAPH("  %1 = leaky_relu $x {slope=C} : f32[]"), "3:29: expected a number, found 'C'"},
    {GRAPH("  %1 = leaky_relu $x {slope=1e999} : f32[]"), "3:29: 1e999 is too large for a double"},
    {GRAPH("  %1 = slice $x {axis=C, start=1.5, stop=2} : f32[]"),
     "3:32: expected an integer, found '1.5'"},
    {GRAPH("  %1 = sum $x {over=[A, B, C, D, E, F, G, H, I]} : f32[]"),
     "3:46: a list of more than 8"},
    {GRAPH("  %1 = abs $x : f32[1, 1, 1, 1, 1, 1, 1, 1, 1]"), "3:45: more than 8 axes"},
    {GRAPH("  %1 = abs $x : f32[N=-1]"),
     "3:23: an axis size must lie between 0 and 140737488355328, found -1"},
    {GRAPH("  %1 = abs $x : f32[N=99999999999999999999]"), "3:23: an axis size must lie between"},
    {GRAPH("  %1 = abs $x : f32[N=1000000000, C=1000000000]"), "3:35: more than 2^47 elements"},
    {GRAPH("  %1 = abs $x : f32[N=2, N=2]"), "3:26: axis N stands there twice"},
    {GRAPH("  %1 = abs $x : f32[N=2] @xl"), "3:26: unknown layout '@xl'"},
    {GRAPH("  %1 = abs $x : f32[N=2, C=1] @panel0"), "3:31: the width of a panel"},
    {GRAPH("  %1 = abs $x : f32[N=2] @panel8"), "3:26: layout @panel needs at least two axes"},
    {GRAPH("  %1 = abs $x : f32[], f32[]"), "3:17: expected 1 type, one a value"},
    {GRAPH("  %1 = abs $x : f32[] at -1"), "3:26: an offset must lie between 0"},
    {GRAPH("  %1 = abs $x : f32[] {"), "3:23: expected the end of the line, found '{'"},
    {GRAPH("  %1 = fused @k($x) : f32[]"), "3:14: no kernel @k stands above"},
    {GRAPH("  input $x = %1 : f32[]"), "3:9: $x is declared twice"},
    {GRAPH("  param $y = %1 : f32[] init normel(0, 1)"),
     "3:30: unknown initial value 'normel'; did you mean 'normal'?"},
    {GRAPH("  table $y = %1 : f32[] init zero"),
     "3:25: expected the table's numbers (1, 2...), found 'init'"},
    {GRAPH("  table $y = %1 : f32[N=2] numbers(1 2)"), "3:38: expected ')', found '2'"},
    {GRAPH("  table $y = %1 : f32[N=2] numbers(1,)"), "3:38: expected a number, found ')'"},
    {GRAPH("  param $y = %1 : f32[N=2] numbers(1, 2)"),
     "3:28: expected the end of the line, found 'numbers'"},
    {GRAPH("  param $y = %1 : f32[] init normal(0)"), "3:38: expected ',', found ')'"},
    {GRAPH("  outputs \"y\" = $x"), "3:3: unknown statement 'outputs'; did you mean 'output'?"},
    {GRAPH("  output y = $x"), "3:10: expected the result's name in quotes, found 'y'"},
    {GRAPH("  update $y = $x"), "3:10: no variable $y is declared above"},
    {GRAPH("  next %0"), "3:8: next is %0, but %0 is used"},
    {GRAPH("  arena many"), "3:9: expected the arena's bytes, found 'many'"},
    {GRAPH("  output \"y = $x"), "3:10: a string is not closed on its line"},
    {GRAPH("  output \"\\q\" = $x"), "3:11: an unknown escape in a string"},
    {GRAPH("  output \"\\x00\" = $x"), "3:11: an unknown escape in a string"},
    {GRAPH("  output \"\xC3\" = $x"), "3:11: a string that is not UTF-8 (byte 0xC3, 1 after"},
    {GRAPH("  # \xFF"), "3:5: a comment that is not UTF-8 (byte 0xFF"},
    {GRAPH("  \xC3\xA9"), "3:3: a character that means nothing here (byte 0xC3"},
    {GRAPH("  % = abs $x : f32[]"), "3:3: expected a name after %"},
    {"kernel @k() -> (%o: f32[]) space() {\n}\n", "3:1: kernel @k stands before no graph"},
    {"kernel @k(%a: f32[], %a: f32[]) -> () space() {\n}\n",
     "1:22: parameter %a stands there twice"},
    {"kernel @k(%a: f32[] alias %a) -> () space() {\n}\n",
     "1:21: only an output may alias an input"},
    {"kernel @k() -> (%o: f32[], %p: f32[] alias %o) space() {\n}\n",
     "1:38: an output may alias only an input"},
    {"kernel @k() -> (%o: f32[]) {\n}\n", "1:28: expected space(...), found '{'"},
    {KERNEL("}\nkernel @k() -> () space() {"), "3:8: kernel @k stands there twice"},
    {KERNEL("  schedule lanes {phases=1}"), "2:12: 'lanes' is no schedule of a kernel"},
    {KERNEL("  schedule points"), "2:18: expected '{', found the end of the line"},
    {KERNEL("  schedule points {over=[W], phases=1}"), "2:20: expected phases, found 'over'"},
    {KERNEL("  schedule rows {phases=1}"), "2:18: expected over, found 'phases'"},
    {KERNEL("  schedule rows {over=[N], phases=1}"), "2:24: the space has no axis 'N'"},
    {KERNEL("  schedule rows {over=[W, W], phases=1}"), "2:27: an axis stands there twice"},
    {KERNEL("  schedule points {phases=-1}"), "2:27: phases must lie between 0"},
    {KERNEL("  schedule call {phases=1}"), "2:18: expected variant, found 'phases'"},
    {KERNEL("  schedule scatter {variant=\"a\"}"), "2:20: expected the end of the line, found '{'"},
    {KERNEL("  schedule points {phases=1, variant=\"a\"}"), "2:28: expected '}', found ','"},
    {KERNEL("  schedule tiles {phases=1, variant=a}"),
     "2:37: expected a variant's name, found 'a'"},
    {KERNEL("  %0 = load %a[C] : f32\n  schedule call"),
     "3:3: expected an instruction or '}', found 'schedule'"},
    {KERNEL("  %1 = load %a[C] : f32"), "2:3: results are numbered by instruction: expected %0"},
    {KERNEL("  %0 = load %b[C] : f32"), "2:13: kernel @k has no parameter %b"},
    {KERNEL("  %0 = load %a[D] : f32"), "2:16: the space has no axis 'D'"},
    {KERNEL("  %0 = load %a[@2] : f32"), "2:16: the space has no axis @2"},
    {KERNEL("  %0 = load %a[] : f32"), "2:16: expected an axis of the space, found ']'"},
    {KERNEL("  %0 = load %a[C, W] : f32"), "2:15: %a has 1 axes, found more"},
    {KERNEL("  %0 = abs %0 : f32"), "2:12: no instruction above makes %0"},
    {KERNEL("  %0 = coord C : f32\n  %1 = add %0 : f32"), "3:12: add takes 2 operands"},
    {KERNEL("  %0 = slice %0 : f32"), "2:8: slice is no instruction of a kernel"},
    {KERNEL("  %0 = conv %a, %w {stride=[1, 1], pad_lo=[1]} : f32"),
     "2:43: pad_lo needs one number a spatial axis"},
    {KERNEL("  %0 = conv cat(%a), %w {stride=[1]} : f32"), "2:19: cat of one part"},
    {KERNEL("  %0 = coord C : f32\n  %1 = sum %0 {over=[C, C]} : f32"),
     "3:25: an axis stands there twice"},
    {KERNEL("  store %o[C], %0"), "2:16: no instruction above makes %0"},
};

void test_faults(void) {
    dl_arena *arena = dl_arena_new(NULL);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        dl_error err = {0};
        const char *want = dl_format(arena, "t.dlir:%s", faults[i].message);
        CHECK(!parse(arena, faults[i].text, &err) && err.code == DL_INPUT, "%s", faults[i].text);
        CHECK(strncmp(err.message, want, strlen(want)) == 0, "got '%s', want '%s'", err.message,
              want);
    }
    dl_error err = {0};
    CHECK(!dl_parse_module(arena, "graph @\0 {", 10, "t.dlir", &err));
    CHECK_STR(err.message, "t.dlir:1:7: expected a name after @");
    size_t n = ((size_t)16 << 20) + 1;
    char *big = malloc(n);
    memset(big, '\n', n);
    err = (dl_error){0};
    CHECK(!dl_parse_module(arena, big, n, "t.dlir", &err));
    CHECK_STR(err.message, "t.dlir:1:1: larger than the 16 MiB such a text may have");
    memset(big, 'a', 70000);
    err = (dl_error){0};
    CHECK(!dl_parse_module(arena, big, 70000, "t.dlir", &err));
    CHECK_STR(err.message, "t.dlir:1:1: a token longer than 64 KiB");
    free(big);
    dl_arena_free(arena);
}

/* 17 reductions, each of the one before. */
#define SUM(n, of) "  %" #n " = sum %" #of " {over=[W]} : f32\n"
#define SUMS_OF_SUMS                                                                               \
    SUM(1, 0)                                                                                      \
    SUM(2, 1)                                                                                      \
    SUM(3, 2)                                                                                      \
    SUM(4, 3)                                                                                      \
    SUM(5, 4)                                                                                      \
    SUM(6, 5)                                                                                      \
    SUM(7, 6)                                                                                      \
    SUM(8, 7)                                                                                      \
    SUM(9, 8)                                                                                      \
    SUM(10, 9) SUM(11, 10) SUM(12, 11) SUM(13, 12) SUM(14, 13) SUM(15, 14) SUM(16, 15) SUM(17, 16)
static const struct {
    const char *text, *message;
} kernel_faults[] = {
    {KERNEL("  %0 = coord W : f32\n  store %o[C], %0"),
     "instruction 1: all points along W store into the same"},
    {KERNEL("  %0 = load %a[C] : f32"), "nothing stores into output %o"},
    {KERNEL("  %0 = load %o[C] : f32"), "instruction 0: a load of output %o"},
    {KERNEL("  %0 = load %a[C] : f32\n  store %a[C], %0"), "instruction 1: a store into input %a"},
    {KERNEL("  %0 = mean %0"), NULL},
    {KERNEL("  %0 = coord W : f32\n  %1 = mean %0 {over=[W]} : f32"),
     "instruction 1: mean is no reduction"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[C]} : f32\n  %2 = add %1, %0 : f32\n  "
            "store %o[C], %2"),
     "instruction 3: all points along W store into the same"},
    {KERNEL("  %0 = coord W : f32\n" SUMS_OF_SUMS), "instruction 17: more than 16 reductions wait"},
    /* each of what follows was a fault when a kernel had one set of reduced axes; now only nothing
     * is stored */
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = sum %0 {over=[C]} : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = add %1, %0 : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = sum %1 {over=[W]} : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = load %a[C] : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = conv %a, %w {stride=[1], pad_lo=[0], pad_hi=[0]} : f32"),
     "instruction 0: %a has 1 axes, a contraction over 1 spatial"},
    {KERNEL("  %0 = conv %w, %w {stride=[1], pad_lo=[0], pad_hi=[0]} : f32"),
     "instruction 0: a space of 2 axes around a contraction of 3"},
    {KERNEL("  %0 = conv %w, %w {stride=[1], pad_lo=[0], pad_hi=[0], dilation=[0]} : f32"),
     "instruction 0: dilation 0"},
    {KERNEL("  %0 = conv cat(%w, %w), %w {stride=[1], pad_lo=[0], pad_hi=[0], dilation=[2], "
            "groups=2} : f32"),
     "instruction 0: "},
    {KERNEL("  %0 = coord W : f32\n  %1 = conv %w, %w {stride=[1], pad_lo=[0], pad_hi=[0]} : f32"),
     "instruction 1: the contraction must be the first instruction"},
};

void test_kernel_faults(void) {
    dl_arena *arena = dl_arena_new(NULL);
    for (size_t i = 0; i < sizeof kernel_faults / sizeof *kernel_faults; i++) {
        dl_error err = {0};
        dl_module *m = parse(arena, kernel_faults[i].text, &err);
        const char *want = kernel_faults[i].message;
        if (!want) {
            CHECK(!m);
            continue;
        }
        CHECK(m, "%s", err.message);
        const char *fault = m ? dl_kernel_fault(m->graphs.at[0]->kernels.at[0], arena) : NULL;
        CHECK(fault && strncmp(fault, want, strlen(want)) == 0, "got '%s', want '%s'",
              fault ? fault : "nothing", want);
    }
    dl_arena_free(arena);
}
