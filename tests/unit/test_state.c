/* Variables: every layout written and read back, element types, and how variables start. */
#include "ir/collective.h"
#include "tests/check.h"

#include <time.h>

#include "runtime/base/convert.h"
#include "runtime/device/layout.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/unit/plan_fixture.h"

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An executor of a plan that has variables only. */
static dlr_exec *open_exec(const dl_plan *p, int threads) {
    dl_error err = {0};
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = threads}, &err);
    CHECK(e, "%s", err.message);
    if (!e) exit(dl_test_end());
    return e;
}

static dl_plan *plan_of_one(dl_type type, dl_init init) {
    dl_plan *p = new_plan(dl_plan_round(dl_type_bytes(&type)));
    add_var(p, DL_VAR_PARAM, "w", type, init, 0);
    return p;
}

/* Row-major index to logical coordinates. */
static void unravel(const dl_type *t, int64_t i, int64_t at[DL_MAX_RANK]) {
    for (int a = t->rank - 1; a >= 0; a--) at[a] = i % t->axis[a].size, i /= t->axis[a].size;
}

/* Ranges that cover the tensor, of many lengths and on no boundary of the layout: each element
 * once, none of its neighbours; and as another element type. */
static void check_ranges(dlr_exec *e, dlr_view v, const char *host, char *back) {
    const dl_type *t = v.type;
    int64_t n = dl_type_count(t), bytes = dl_dtype_bytes(t->dtype), wrong = 0;
    char *stored = malloc((size_t)dl_type_bytes(t) + 1);
    double *wide = malloc((size_t)n * sizeof *wide + 1);
    memcpy(stored, dlr_exec_data(e, v), (size_t)dl_type_bytes(t));
    for (int64_t step = 1; step <= n; step = 7 * step + 2) {
        int64_t longest = n / step > 60 ? n / 60 : step; /* not too many ranges of a large tensor */
        memset(back, 0, (size_t)(n * bytes));
        memset(dlr_exec_data(e, v), 0, (size_t)dl_type_bytes(t));
        for (int64_t at = 0, k = 0; at < n; k++) {
            int64_t take = 1 + (longest - 1) * (k % 5 + 1) / 5;
            dlr_range r = {at, n - at < take ? n - at : take};
            dlr_state_write_range(e, v, r, t->dtype, host + at * bytes);
            at += r.n;
        }
        wrong += memcmp(stored, dlr_exec_data(e, v), (size_t)dl_type_bytes(t)) != 0;
        for (int64_t at = 0; at < n; at += longest) {
            dlr_range r = {at, n - at < longest ? n - at : longest};
            dlr_state_read_range(e, v, r, t->dtype, back + at * bytes);
            dlr_state_read_range(e, v, r, DL_F64, wide + at);
        }
        wrong += memcmp(host, back, (size_t)(n * bytes)) != 0;
        for (int64_t i = 0; i < n; i++) {
            double want;
            dlr_convert(DL_F64, &want, t->dtype, host + i * bytes, 1);
            wrong += memcmp(&want, &wide[i], sizeof want) != 0;
        }
    }
    dlr_state_read_range(e, v, (dlr_range){n, 0}, t->dtype, NULL); /* nothing */
    CHECK(wrong == 0, "%s: %ld faults of ranges", dl_type_text(t), (long)wrong);
    free(stored), free(wide);
}

/* ---- layouts: against dl_type_offset, one element at a time ---- */
static void check_layout(dl_type t, int threads) {
    dl_plan *p = plan_of_one(t, (dl_init){0});
    dlr_exec *e = open_exec(p, threads);
    dlr_view v = dlr_exec_variable(e, "w");
    int64_t n = dl_type_count(&t), stored = dl_type_stored(&t), bytes = dl_dtype_bytes(t.dtype);
    char *host = malloc((size_t)(n * bytes) + 1), *back = malloc((size_t)(n * bytes) + 1),
         *memory = dlr_exec_data(e, v);
    for (int64_t i = 0; i < n * bytes; i++)
        host[i] = (char)(i * 2654435761u >> 13 | 1); /* no byte is 0 */
    memset(memory, 0x55, (size_t)(stored * bytes));
    dlr_state_write(e, v, t.dtype, host);
    int64_t wrong = 0, zeros = 0, at[DL_MAX_RANK];
    for (int64_t i = 0; i < n; i++) {
        unravel(&t, i, at);
        wrong +=
            memcmp(memory + dl_type_offset(&t, at) * bytes, host + i * bytes, (size_t)bytes) != 0;
    }
    CHECK(wrong == 0, "%s: %ld of %ld elements misplaced", dl_type_text(&t), (long)wrong, (long)n);
    for (int64_t i = 0; i < stored; i++) {
        bool zero = true;
        for (int64_t k = 0; k < bytes; k++) zero = zero && memory[i * bytes + k] == 0;
        zeros += zero;
    }
    CHECK(zeros == stored - n, "%s: %ld zeros, not %ld of padding", dl_type_text(&t), (long)zeros,
          (long)(stored - n));
    memset(back, 0, (size_t)(n * bytes));
    dlr_state_read(e, v, t.dtype, back);
    CHECK(memcmp(host, back, (size_t)(n * bytes)) == 0, "%s", dl_type_text(&t));
    check_ranges(e, v, host, back);
    free(host), free(back);
    dlr_exec_close(e);
    dl_arena_free(p->arena);
}

static void test_layouts(void) {
    static const int64_t sizes[][5] = {{2, 4, 5, 6, 7},   {1, 1, 3, 3, 3},     {20, 3, 3, 3, 3},
                                       {33, 17, 1, 1, 1}, {5, 130, 2, 11, 3},  {64, 7, 4, 4, 4},
                                       {3, 2, 0, 4, 4},   {19, 2, 13, 17, 23}, {1, 300, 9, 9, 9}};
    static const dl_layout layouts[] = {{.kind = DL_ROW},
                                        {.kind = DL_CL},
                                        {.kind = DL_PANEL, .width = 1},
                                        {.kind = DL_PANEL, .width = 8},
                                        {.kind = DL_PANEL, .width = 32},
                                        {.kind = DL_PANEL, .width = 48},
                                        {.kind = DL_CL, .steps = 1},
                                        {.kind = DL_CL, .steps = 3}};
    enum { LAYOUTS = sizeof layouts / sizeof *layouts };
    static const dl_dtype dtypes[] = {DL_F32, DL_F64, DL_BF16, DL_BOOL};
    enum { LARGE = 7 }; /* the sizes from there on have 200,000 elements */
    int turn = 0;
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned l = 0; l < LAYOUTS; l++, turn++) {
            if (s >= LARGE && !dl_test_takes_of(s, l, LAYOUTS, (unsigned)turn)) continue;
            check_layout(type_of(DL_F32, layouts[l], 5, sizes[s]), 1 + turn % 3);
            check_layout(type_of(dtypes[1 + turn % 3], layouts[l], 5, sizes[s]), 1 + turn % 2);
        }
    for (int l = 0; l < 6; l++)
        check_layout(type_of(DL_F32, layouts[l], 2, (int64_t[]){37, 29}), 2);
    check_layout(type_of(DL_F32, (dl_layout){.kind = DL_PANEL, .width = DL_MAX_PANEL}, 3,
                         (int64_t[]){5000, 3, 9}),
                 2);
    check_layout(type_of(DL_F32, (dl_layout){.kind = DL_CL}, 1, (int64_t[]){40000}), 2);
    check_layout(dl_scalar(DL_I64), 2);
}

/* ---- element types ---- */
/* A number between two neighbours, halfway or next to it by less than a float's digits tell:
 * rounded once. */
static void test_rounding_once(dl_dtype type, uint16_t infinity) {
    int wrong = 0;
    for (uint32_t v = 0; v + 1 < infinity; v++)
        for (uint16_t sign = 0; sign < 2; sign++) {
            uint16_t ends[] = {(uint16_t)(v | (uint32_t)sign << 15),
                               (uint16_t)((v + 1) | (uint32_t)sign << 15)},
                     got[3];
            double at[2];
            dlr_convert(DL_F64, at, type, ends, 2);
            double middle = (at[0] + at[1]) / 2,
                   near[] = {middle * (1 - 0x1p-50), middle, middle * (1 + 0x1p-50)};
            dlr_convert(type, got, DL_F64, near, 3);
            wrong += got[0] != ends[0] || got[1] != ends[v & 1] || got[2] != ends[1];
        }
    CHECK(!wrong, "%s: %d of %d", dl_dtype_name(type), wrong, 2 * infinity);
}

static void test_convert(void) {
    const double in[] = {0,     1,      -2.5,        1e-3, 65504,   65519.99,     65520,
                         1e300, -1e300, (double)NAN, 6e-8, 0x1p-25, 1.5 * 0x1p-24};
    enum { COUNT = sizeof in / sizeof *in };
    float f[COUNT];
    double d[COUNT];
    uint16_t h[COUNT];
    int32_t i[COUNT];
    uint8_t b[COUNT];
    dlr_convert(DL_F32, f, DL_F64, in, COUNT);
    for (int k = 0; k < COUNT; k++) CHECK(f[k] == (float)in[k] || in[k] != in[k]);
    dlr_convert(DL_F16, h, DL_F64, in, COUNT);
    const uint16_t halves[COUNT] = {0,      0x3c00, 0xc100, 0x1419, 0x7bff, 0x7bff, 0x7c00,
                                    0x7c00, 0xfc00, 0x7e00, 1,      0,      2};
    for (int k = 0; k < COUNT; k++)
        CHECK(h[k] == halves[k], "%g: %04x, want %04x", in[k], h[k], halves[k]);
    dlr_convert(DL_I32, i, DL_F64, in, COUNT);
    CHECK(i[2] == -2 && i[4] == 65504 && i[7] == INT32_MAX && i[8] == INT32_MIN && i[9] == 0);
    dlr_convert(DL_BOOL, b, DL_F64, in, COUNT);
    CHECK(b[0] == 0 && b[1] == 1 && b[3] == 1);
    bool exact = true; /* every half and every bf16 survives the way through f64 */
    for (int v = 0; v < 65536; v++) {
        uint16_t one = (uint16_t)v, again;
        for (int k = 0; k < 2; k++) {
            dl_dtype type = k ? DL_BF16 : DL_F16;
            dlr_convert(DL_F64, d, type, &one, 1);
            dlr_convert(type, &again, DL_F64, d, 1);
            exact = exact && (again == one || d[0] != d[0]);
        }
    }
    CHECK(exact);
    test_rounding_once(DL_F16, 0x7c00);
    test_rounding_once(DL_BF16, 0x7f80);
    const float ties[] = {0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.03p0f};
    dlr_convert(DL_BF16, h, DL_F32, ties, 4);
    CHECK(h[0] == 0x3f80 && h[1] == 0x3f82 && h[2] == 0x3f81 && h[3] == 0xbf82, "%x %x %x %x", h[0],
          h[1], h[2], h[3]);
    const int64_t big = ((int64_t)1 << 60) + 1, low = -((int64_t)1 << 40);
    int64_t out;
    dlr_convert(DL_I64, &out, DL_I64, &big, 1);
    CHECK(out == big);
    dlr_convert(DL_I32, i, DL_I64, &low, 1);
    CHECK(i[0] == INT32_MIN);

    /* Through a variable of another type and layout. */
    dl_type t =
        type_of(DL_F32, (dl_layout){.kind = DL_PANEL, .width = 16}, 5, (int64_t[]){21, 5, 3, 3, 3});
    dl_plan *p = plan_of_one(t, (dl_init){0});
    dlr_exec *e = open_exec(p, 2);
    int64_t n = dl_type_count(&t);
    double *values = calloc((size_t)n, 8), *back = calloc((size_t)n, 8);
    for (int64_t k = 0; k < n; k++) values[k] = (double)k / 4;
    dlr_state_write(e, dlr_exec_variable(e, "w"), DL_F64, values);
    dlr_state_read(e, dlr_exec_variable(e, "w"), DL_F64, back);
    CHECK(memcmp(values, back, (size_t)n * 8) == 0);
    int64_t at[DL_MAX_RANK] = {20, 4, 2, 1, 0};
    float *stored = dlr_exec_data(e, dlr_exec_variable(e, "w"));
    CHECK((double)stored[dl_type_offset(&t, at)] == values[20 * 135 + 4 * 27 + 2 * 9 + 3]);
    free(values), free(back);
    dlr_exec_close(e);
    dl_arena_free(p->arena);
}

/* ---- starts ---- */
enum { O = 70, C = 50, K = 27, COUNT = O * C * K };

/* Initialises a weight in the given layout and returns it row-major. */
static float *start_of(dl_layout layout, dl_dtype dtype, dl_init init, uint64_t seed, int threads) {
    dl_plan *p = plan_of_one(type_of(dtype, layout, 5, (int64_t[]){O, C, 3, 3, 3}), init);
    dlr_exec *e = open_exec(p, threads);
    dlr_view v = dlr_exec_variable(e, "w");
    memset(dlr_exec_data(e, v), 0x55,
           (size_t)dl_type_bytes(v.type)); /* a second start must not see the first */
    dl_error err = {0};
    CHECK(dlr_state_init(e, seed, &err), "%s", err.message);
    float *out = malloc(COUNT * sizeof *out);
    dlr_state_read(e, v, DL_F32, out);
    dlr_exec_close(e);
    dl_arena_free(p->arena);
    return out;
}

/* A rank's piece, of one cut or of two, the first perhaps of several parts, starts as what one rank
 * draws there, in any layout; and a whole tensor goes into it and comes back, in ranges. */
static void check_piece(dl_layout layout, int axis, int ranks, int parts, int axis2, int ranks2,
                        dl_init init) {
    const dl_type whole = type_of(DL_F32, (dl_layout){0}, 5, (int64_t[]){O, C, 3, 3, 3});
    float *want = start_of((dl_layout){0}, DL_F32, init, 11, 1),
          *back = malloc(COUNT * sizeof *back);
    int64_t found = 0;
    memset(back, 0, COUNT * sizeof *back);
    for (int rank = 0; rank < ranks * ranks2; rank++) {
        dl_var_piece piece = {.n = 1 + (ranks2 > 1)};
        dl_type t = whole;
        for (int k = 0; k < piece.n; k++) {
            dl_var_cut *c = &piece.cut[k];
            *c = k ? (dl_var_cut){"dp", axis2, ranks2, rank / ranks, 1, t.axis[axis2].size}
                   : (dl_var_cut){"tp", axis, ranks, rank % ranks, parts, t.axis[axis].size};
            t.axis[c->axis].size = dl_cut_share(c).n * c->parts;
        }
        CHECK(dl_piece_fits(&t, &piece) && dl_type_count(&whole) == COUNT, "a piece");
        t.layout = layout;
        dl_plan *p = plan_of_one(t, init);
        p->vars.at[0].piece = piece;
        dlr_exec *e = open_exec(p, 2);
        dlr_view v = dlr_exec_variable(e, "w");
        dl_error err = {0};
        CHECK(dlr_state_init(e, 11, &err), "%s", err.message);
        int64_t n = dl_type_count(&t), wrong = 0;
        float *got = malloc(((size_t)n + 1) * sizeof *got);
        dlr_state_read(e, v, DL_F32, got);
        for (int64_t i = 0; i < n; i++) {
            int64_t left = i, at = 0, step = 1;
            for (int a = 4; a >= 0; a--) {
                int64_t one = 1;
                at += dl_piece_at(&piece, a, left % t.axis[a].size, &one) * step;
                left /= t.axis[a].size, step *= whole.axis[a].size;
            }
            wrong += got[i] != want[at];
        }
        CHECK(!wrong, "axes %d and %d, rank %d of %d by %d: %lld elements are not the whole's",
              axis, axis2, rank, ranks, ranks2, (long long)wrong);
        memset(dlr_exec_data(e, v), 0, (size_t)dl_type_bytes(v.type));
        for (int64_t at = 0; at < COUNT; at += 1777) {
            dlr_range r = {at, COUNT - at < 1777 ? COUNT - at : 1777};
            dlr_state_write_whole(e, v, r, DL_F32, want + at);
        }
        for (int64_t at = 0; at < COUNT; at += 999) {
            dlr_range r = {at, COUNT - at < 999 ? COUNT - at : 999};
            dlr_state_read_whole(e, v, r, DL_F32, back + at);
        }
        found += n;
        free(got), dlr_exec_close(e), dl_arena_free(p->arena);
    }
    CHECK(found == COUNT && memcmp(back, want, COUNT * sizeof *back) == 0,
          "axes %d, %d: not all came back", axis, axis2);
    free(want), free(back);
}

static void test_pieces(void) {
    const dl_init normal = {DL_INIT_NORMAL, 0, 1}, cut = {DL_INIT_TRUNC_NORMAL, 0, 1},
                  even = {DL_INIT_UNIFORM, 0, 1};
    check_piece((dl_layout){0}, 0, 2, 1, 0, 1, normal);
    check_piece((dl_layout){0}, 1, 4, 1, 0, 1, cut);
    check_piece((dl_layout){0}, 4, 3, 1, 0, 1, even);
    check_piece((dl_layout){.kind = DL_CL}, 1, 2, 1, 0, 1, even);
    check_piece((dl_layout){.kind = DL_PANEL, .width = 32}, 0, 4, 1, 0, 1, normal);
    check_piece((dl_layout){.kind = DL_PANEL, .width = 16}, 1, 3, 1, 0, 1, cut);
    check_piece((dl_layout){0}, 3, 4, 1, 0, 1, normal); /* nothing for the last */
    /* and once more: of one axis, of an outer and an inner one, and the other way round */
    check_piece((dl_layout){0}, 0, 2, 1, 0, 3, normal);
    check_piece((dl_layout){0}, 1, 3, 1, 1, 2, even);
    check_piece((dl_layout){0}, 0, 2, 1, 1, 3, cut);
    check_piece((dl_layout){0}, 3, 3, 1, 0, 2, normal);
    check_piece((dl_layout){.kind = DL_PANEL, .width = 16}, 1, 2, 1, 0, 3, normal);
    check_piece((dl_layout){0}, 3, 2, 1, 3, 2, even); /* nothing for one of them */
    /* a share of each of several parts; of that whole parts and some of others, or of an inner axis
     */
    check_piece((dl_layout){0}, 0, 2, 5, 0, 1, normal);
    check_piece((dl_layout){.kind = DL_PANEL, .width = 16}, 0, 3, 2, 0, 1, cut);
    check_piece((dl_layout){0}, 0, 2, 5, 0, 3, even);
    check_piece((dl_layout){0}, 0, 4, 5, 0, 5, normal);
    check_piece((dl_layout){.kind = DL_PANEL, .width = 16}, 0, 2, 2, 1, 3, cut);
}

static void statistics(const float *x, double *mean, double *std, double *most) {
    double sum = 0, squares = 0, top = 0;
    for (int i = 0; i < COUNT; i++) sum += (double)x[i];
    *mean = sum / COUNT;
    for (int i = 0; i < COUNT; i++) {
        double d = (double)x[i] - *mean;
        squares += d * d, top = fmax(top, fabs((double)x[i]));
    }
    *std = sqrt(squares / COUNT), *most = top;
}

static void test_starts(void) {
    /* The promises of each rule: mean, standard deviation, largest magnitude at least and at most.
     * A normal cut at two deviations has 0.8796 of the deviation. */
    static const struct {
        dl_init init;
        double mean, std, above, below;
    } rules[] = {{{DL_INIT_ZERO, 0, 0}, 0, 0, 0, 0},
                 {{DL_INIT_CONST, 0.25, 0}, 0.25, 0, 0.25, 0.25},
                 {{DL_INIT_NORMAL, 0, 0.02}, 0, 0.02, 0.07, 0.14},
                 {{DL_INIT_NORMAL, 1, 0.5}, 1, 0.5, 2.8, 4.4},
                 {{DL_INIT_TRUNC_NORMAL, 0, 0.02}, 0, 0.017593, 0.0399, 0.040000002},
                 {{DL_INIT_UNIFORM, -0.5, 0.5}, 0, 0.288675, 0.499, 0.5}};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        float *x = start_of((dl_layout){0}, DL_F32, rules[r].init, 11, 1);
        double mean, std, most, sigma = rules[r].std / sqrt(COUNT);
        statistics(x, &mean, &std, &most);
        CHECK_NEAR(mean, rules[r].mean, 5 * sigma + 1e-12);
        CHECK_NEAR(std, rules[r].std, 5 * sigma + 1e-12);
        CHECK(most >= rules[r].above && most <= rules[r].below, "%g", most);
        float *cl = start_of((dl_layout){.kind = DL_CL}, DL_F32, rules[r].init, 11, 2);
        float *panel =
            start_of((dl_layout){.kind = DL_PANEL, .width = 32}, DL_F32, rules[r].init, 11, 5);
        float *wide =
            start_of((dl_layout){.kind = DL_PANEL, .width = 16}, DL_F64, rules[r].init, 11, 2);
        CHECK(memcmp(x, cl, COUNT * sizeof *x) == 0 && memcmp(x, panel, COUNT * sizeof *x) == 0);
        CHECK(memcmp(x, wide, COUNT * sizeof *x) == 0);
        float *other = start_of((dl_layout){0}, DL_F32, rules[r].init, 12, 1);
        int same = 0;
        for (int i = 0; i < COUNT; i++) same += x[i] == other[i];
        CHECK(rules[r].std > 0 ? same < COUNT / 1000 : same == COUNT,
              "%d the same for another seed", same);
        free(x), free(cl), free(panel), free(wide), free(other);
    }
}

/* Tables hold their numbers from the beginning, in every layout and type, and no start changes
 * them. */
static void test_tables(void) {
    static const dl_layout layouts[] = {
        {.kind = DL_ROW}, {.kind = DL_CL}, {.kind = DL_PANEL, .width = 16}};
    static const dl_dtype dtypes[] = {DL_F32, DL_F64, DL_I32, DL_I64, DL_BOOL};
    enum { NUMBERS = 5 * 7 * 3 };
    for (int l = 0; l < 3; l++)
        for (int d = 0; d < 5; d++) {
            dl_plan *p =
                plan_of_one(type_of(dtypes[d], layouts[l], 3, (int64_t[]){5, 7, 3}), (dl_init){0});
            p->vars.at[0].role = DL_VAR_TABLE;
            double want[NUMBERS], got[NUMBERS];
            for (int i = 0; i < NUMBERS; i++) {
                want[i] = dl_dtype_is_float(dtypes[d]) ? (double)(0.1f * (float)(i - 50))
                          : dtypes[d] == DL_BOOL       ? i % 3 == 1
                                                       : i * i - 9;
                dl_push(p->arena, &p->vars.at[0].numbers, want[i]);
            }
            dlr_exec *e = open_exec(p, 2);
            dl_error err = {0};
            for (int started = 0; started < 2; started++) {
                dlr_state_read(e, dlr_exec_variable(e, "w"), DL_F64, got);
                CHECK(memcmp(got, want, sizeof got) == 0, "layout %d, type %d, started %d", l, d,
                      started);
                CHECK(dlr_state_init(e, 3, &err), "%s", err.message);
            }
            dlr_exec_close(e);
            dl_arena_free(p->arena);
        }
}

/* Names decide, not places: two variables swapped in the plan start the same; two names differ. */
static void test_names(void) {
    float out[2][2][100];
    for (int swap = 0; swap < 2; swap++) {
        dl_plan *p = new_plan(8192);
        dl_init normal = {DL_INIT_NORMAL, 0, 1};
        add_var(p, DL_VAR_PARAM, swap ? "b" : "a", vector(100), normal, 0);
        add_var(p, DL_VAR_PARAM, swap ? "a" : "b", vector(100), normal, 4096);
        add_var(p, DL_VAR_HYPER, "lr", dl_scalar(DL_F64), (dl_init){DL_INIT_CONST, 1e-3, 0}, 2048);
        add_var(p, DL_VAR_STATE, "step", dl_scalar(DL_I64), (dl_init){DL_INIT_CONST, 3, 0}, 2112);
        dlr_exec *e = open_exec(p, 2);
        dl_error err = {0};
        CHECK(dlr_state_init(e, 5, &err));
        dlr_state_read(e, dlr_exec_variable(e, "a"), DL_F32, out[swap][0]);
        dlr_state_read(e, dlr_exec_variable(e, "b"), DL_F32, out[swap][1]);
        CHECK(*(double *)dlr_exec_data(e, dlr_exec_variable(e, "lr")) == 1e-3); /* all its digits */
        CHECK(*(int64_t *)dlr_exec_data(e, dlr_exec_variable(e, "step")) == 3);
        dlr_exec_close(e);
        dl_arena_free(p->arena);
    }
    CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0);
    CHECK(memcmp(out[0][0], out[0][1], sizeof out[0][0]) != 0);
}

/* Rates on a weight of the U-Net's kind; figures, not checks. */
static void show_rates(int64_t channels) {
    dl_type t = type_of(DL_F32, (dl_layout){.kind = DL_PANEL, .width = 32}, 5,
                        (int64_t[]){channels, channels, 4, 4, 4});
    dl_plan *p = plan_of_one(t, (dl_init){DL_INIT_NORMAL, 0, 0.02});
    dlr_exec *e = open_exec(p, 0);
    dlr_view v = dlr_exec_variable(e, "w");
    dl_error err = {0};
    double n = (double)dl_type_count(&t), best[3] = {1e9, 1e9, 1e9};
    float *host = calloc((size_t)n, 4);
    memset(host, 1, (size_t)n * 4);
    for (int trial = 0; trial < 5; trial++) {
        double a = seconds();
        dlr_state_init(e, 1, &err);
        double b = seconds();
        dlr_state_write(e, v, DL_F32, host);
        double c = seconds();
        dlr_state_read(e, v, DL_F32, host);
        double d = seconds();
        best[0] = fmin(best[0], b - a), best[1] = fmin(best[1], c - b),
        best[2] = fmin(best[2], d - c);
    }
    printf("%.1f M parameters in panels, %d threads: normal %.2f ns each, pack %.1f GB/s, unpack "
           "%.1f GB/s\n",
           n * 1e-6, dlr_pool_threads(dlr_exec_pool(e)), best[0] / n * 1e9, 4 * n / best[1] * 1e-9,
           4 * n / best[2] * 1e-9);
    free(host);
    dlr_exec_close(e);
    dl_arena_free(p->arena);
}

int main(int argc, char **argv) {
    test_layouts();
    test_convert();
    test_starts();
    test_pieces();
    test_tables();
    test_names();
    show_rates(argc > 1 ? atol(argv[1]) : 128);
    return dl_test_end();
}
