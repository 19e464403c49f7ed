/* The loop IR's trees and their texts (compiler/codegen/loops.h), in the dialects of C and CUDA. */
#include "compiler/codegen/loops.h"
#include "compiler/cuda/phase.h"

#include "tests/check.h"

static dl_arena *arena;
static dl_kernel kernel = {.nspace = 3, .space = {{.size = 4}, {.size = 5}, {.size = 6}}};

static dl_emitter emitter_of(dl_buf *out, const dl_dialect *dialect) {
    return (dl_emitter){.out = out,
                        .k = &kernel,
                        .arena = arena,
                        .mode = DL_SINGLE,
                        .dialect = dialect,
                        .lane_axis = -1};
}

/* A sum over lanes, whose point has a coordinate that is used and two that are not. */
static void build(dl_emitter *e) {
    static const dl_kinstr sum = {.op = DL_OP_sum, .type = DL_F32};
    dl_thread_layout t = {.lanes = 32, .groups = 8};
    dl_axis_list all = dl_emit_space_axes(e, 7), second = dl_emit_space_axes(e, 2);
    dl_loops l = dl_loop_begin(e);
    dl_expr lane, group;
    dl_loop_threads(&l, &t, &lane, &group);
    dl_loop_let(&l, "nobody", dl_loop_by(&l, dl_loop_item(&l), '+', 1));
    dl_loop_coordinates(&l, dl_loop_let(&l, "at", dl_loop_by(&l, dl_loop_item(&l), '/', 2)), &all);
    dl_expr s = dl_loop_var(&l, DL_LOOP_DOUBLE, "s", dl_loop_start(&l, &sum)),
            i = dl_loop_for(&l, "i", lane, dl_loop_number(&l, 100), dl_loop_number(&l, t.lanes), 1),
            x = dl_loop_workspace(&l, DL_LOOP_DOUBLE, 64),
            place = dl_loop_op(&l, dl_loop_linear(&l, &second), '-',
                               dl_loop_op(&l, i, '-', dl_loop_fixed(&l, 0)));
    dl_loop_set(&l, s, dl_loop_combine(&l, &sum, s, dl_loop_at(&l, x, place)));
    dl_loop_end(&l);
    dl_loop_barrier(&l);
    dl_loop_set(&l, s, dl_loop_reduce(&l, &sum, s, &t));
    dl_loop_print(&l);
}

static void test_dialects(void) {
    dl_buf c = {0}, cuda = {0};
    dl_emitter e = emitter_of(&c, &dl_dialect_c);
    build(&e);
    CHECK_STR(c.at, "    const long at = item / $:2L$;\n"
                    "    const long $x1$ = at / $/6L$ % $/5L$;\n"
                    "    double s = 0;\n"
                    "    for (long i = 0; i < $100L$; i += $32L$) {\n"
                    "    s = (s + ((double *)(workspace + $64L$))[$x1$ - i]);\n"
                    "    }\n"
                    "    s = s;\n");
    e = emitter_of(&cuda, dl_cuda_dialect(&kernel, 0));
    build(&e);
    CHECK_STR(cuda.at, "    const int lane = kd_thread() % $/32$;\n"
                       "    const int at = item / $:2$;\n"
                       "    const int $x1$ = at / $/6$ % $/5$;\n"
                       "    double s = 0;\n"
                       "#pragma unroll 1\n"
                       "    for (int i = lane; i < $100$; i += $32$) {\n"
                       "    s = by_sum::of(s, ((double *)(workspace + $64L$))[$x1$ - i]);\n"
                       "    }\n"
                       "    __syncthreads();\n"
                       "    s = group_reduce_by<by_sum, 256>(s, $32$);\n");
    dl_buf_free(&c), dl_buf_free(&cuda);
}

/* Fixed numbers are folded, holes are not; parentheses keep the tree's meaning; a coordinate that
 * no statement gives is 0. */
static void test_expressions(void) {
    dl_buf out = {0};
    dl_emitter e = emitter_of(&out, &dl_dialect_c);
    dl_loops l = dl_loop_begin(&e);
    dl_expr item = dl_loop_item(&l), two = dl_loop_fixed(&l, 2), one = dl_loop_fixed(&l, 1),
            zero = dl_loop_fixed(&l, 0), to = dl_loop_var(&l, DL_LOOP_INDEX, "to", zero);
    dl_axis_list along = dl_emit_space_axes(&e, 4), all = dl_emit_space_axes(&e, 7);
    dl_loop_set(&l, to, dl_loop_op(&l, dl_loop_op(&l, two, '+', one), '*', item));
    dl_loop_set(&l, to, dl_loop_op(&l, dl_loop_op(&l, item, '/', one), '+', zero));
    dl_loop_set(&l, to, dl_loop_by(&l, dl_loop_by(&l, to, '*', 1), '%', 1));
    dl_loop_set(&l, to, dl_loop_op(&l, to, '*', dl_loop_op(&l, to, '+', item)));
    dl_loop_set(&l, to, dl_loop_op(&l, dl_loop_op(&l, to, '*', item), '+', item));
    dl_loop_set(&l, to, dl_loop_op(&l, to, '-', dl_loop_op(&l, to, 'm', item)));
    dl_loop_set(&l, to, dl_loop_linear(&l, &along));
    dl_loop_set(&l, to, dl_loop_linear(&l, &all));
    dl_loop_print(&l);
    CHECK_STR(out.at, "    const long $x0$ = 0;\n"
                      "    const long $x1$ = 0;\n"
                      "    const long $x2$ = 0;\n"
                      "    long to = 0;\n"
                      "    to = 3 * item;\n"
                      "    to = item;\n"
                      "    to = to * $1L$ % $/1L$;\n"
                      "    to = to * (to + item);\n"
                      "    to = to * item + item;\n"
                      "    to = to - (to < item ? to : item);\n"
                      "    to = $x2$;\n"
                      "    to = $x0$ * $30L$ + $x1$ * $6L$ + $x2$;\n");
    dl_buf_free(&out);
}

/* Vectors along an axis of a size that they do not fill, and of one that they do. */
static void test_lanes(void) {
    dl_buf out = {0};
    for (int full = 0; full < 2; full++) {
        dl_emitter e = emitter_of(&out, &dl_dialect_c);
        dl_loops l = dl_loop_begin(&e);
        int axis = 1;
        dl_axis_list along = dl_emit_space_axes(&e, 2);
        e.mode = DL_LANES, e.lane_axis = axis;
        dl_expr to = dl_loop_var(&l, DL_LOOP_INDEX, "to", dl_loop_fixed(&l, 0));
        dl_loop_lanes(&l, axis, dl_loop_fixed(&l, 0), dl_loop_number(&l, 5), full);
        dl_loop_set(&l, to, dl_loop_linear(&l, &along));
        dl_loop_end(&l);
        out.n = 0;
        dl_loop_print(&l);
        const char *body = "    (void)$x1$;\n    const long n = ";
        const char *whole = dl_format(
            arena,
            "    long to = 0;\n    long i = 0;\n    for (; i + LANES <= $5L$; i += LANES) {\n"
            "    const long $x1$ = i;\n%sLANES;\n    (void)n;\n    to = $x1$;\n    }\n",
            body);
        const char *rest = dl_format(arena,
                                     "    if (i < $5L$) {\n    const long $x1$ = i;\n%s$5L$ - i;\n"
                                     "    (void)n;\n    to = $x1$;\n    }\n",
                                     body);
        CHECK_STR(out.at, dl_format(arena, "%s%s", whole, full ? "" : rest));
    }
    dl_buf_free(&out);
}

int main(void) {
    arena = dl_arena_new(NULL);
    test_dialects();
    test_expressions();
    test_lanes();
    dl_arena_free(arena);
    return dl_test_end();
}
