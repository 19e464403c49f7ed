/* Constants in emitted code: each comes back as the number that its type holds, through the ops
 * that take one, on every target of this machine, and NVRTC takes the CUDA text. The oracle is IEEE
 * 754's rule in a few lines
 * (`held`), never the interpreter. */
#include <math.h>

#include "compiler/cuda/nvrtc.h"
#include "tests/unit/compiled.h"

enum { MOST = 1024 };
typedef struct {
    double at[MOST];
    int n;
} numbers;

/* A type of `digits` binary digits and exponents from `least` to `most`; of whole numbers, digits
 * alone. */
static const struct {
    dl_dtype type;
    int digits, least, most;
} types[] = {{DL_F32, 24, -126, 127}, {DL_F64, 53, -1022, 1023}, {DL_F16, 11, -14, 15},
             {DL_BF16, 8, -126, 127}, {DL_I32, 31, 0, 0},        {DL_I64, 63, 0, 0}};
enum { NTYPES = sizeof types / sizeof *types };

/* The value that a variable of types[t] holds of v: the nearest of its numbers, of two as near the
 * even one.
 */
static double held(int t, double v) {
    if (v == 0 || !isfinite(v) || !dl_dtype_is_float(types[t].type)) return v;
    int e = ilogb(v) < types[t].least ? types[t].least : ilogb(v), unit = e - types[t].digits + 1;
    double r = ldexp(nearbyint(ldexp(v, -unit)), unit);
    return fabs(r) >= ldexp(1, types[t].most) * 2 ? copysign(INFINITY, v) : r;
}

static bool fits(int t, double v) {
    int d = types[t].digits;
    return dl_dtype_is_float(types[t].type) ||
           (v == floor(v) && v >= -ldexp(1, d) && v < ldexp(1, d));
}

static void put(numbers *c, int t, double v) {
    for (int i = 0; i < 2; i++, v = -v)
        if (fits(t, v) && c->n < MOST) c->at[c->n++] = v;
    DL_CHECK(c->n < MOST);
}

/* v and its neighbours: among doubles, among floats, among whole numbers. */
static void put_near(numbers *c, int t, double v) {
    float f = (float)v;
    double near[] = {v,
                     nextafter(v, 0),
                     nextafter(v, INFINITY),
                     (double)nextafterf(f, 0),
                     (double)nextafterf(f, INFINITY),
                     v - 1,
                     v + 1};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) put(c, t, near[i]);
}

static numbers edges(int t) {
    static const double at[] = {0,      1.0 / 3,  1e6,     1e15,    1e16,     1e17,
                                0x1p31, 0x1p32,   0x1p53,  0x1p63,  0x1p64,   0x1p-126,
                                65504,  0x1p-149, 0x1p-24, 0x1p-14, 0x1p-133, 8.98755178736817e16};
    numbers c = {0};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) put_near(&c, t, at[i]);
    put(&c, t, 3.4028234663852886e38), put(&c, t, 1.7976931348623157e308), put(&c, t, 0x1p-1074);
    put(&c, t, 65519.999), put(&c, t, 65520), put(&c, t, 1e300), put(&c, t, 12345678901234567.0);
    return c;
}

/* Every exponent; of f64 every 21st, whose literals are printed by the same code. */
static numbers exponents(int t) {
    numbers c = {0};
    bool whole = !dl_dtype_is_float(types[t].type);
    int low = whole ? 0 : types[t].least - types[t].digits + 1,
        high = whole ? types[t].digits : types[t].most;
    for (int i = low; i <= high; i += types[t].type == DL_F64 ? 21 : 1)
        put(&c, t, ldexp(1 + (i & 7) / 8.0, i));
    return c;
}

/* Ops that give back the constant next to a variable that they leave without effect. */
static const struct {
    const char *op, *first, *second;
} givers[] = {{"add", "$zero", NULL},   {"mul", NULL, "$one"},     {"sub", NULL, "$zero"},
              {"max", "$lowest", NULL}, {"min", NULL, "$highest"}, {"div", NULL, "$one"}};
enum { NGIVERS = sizeof givers / sizeof *givers };

/* Constants of an output. Outputs differ in length, so that each has a kernel of its own: a
 * compiler's time for one grows faster than its text. */
enum { ROW = 24 };
static int row_length(int row) { return ROW + row; }

/* The elements that givers take from memory, and the number in it. */
static const char *const inputs[] = {"zero", "one", "lowest", "highest"};
enum { NINPUTS = sizeof inputs / sizeof *inputs };

/* Constants c->at[row * ROW...], each through one of the givers in turn, at the places of output
 * "o<row>"; *next: the next free value. */
static void put_row(dl_buf *b, const char *type, const numbers *c, bool whole, int row, int *next) {
    int n = row_length(row), all = -1, place;
    for (int i = 0; i < NINPUTS; i++)
        dl_putf(b, "  input $%s%d = %%%d : %s[K=%d]\n", inputs[i], row, (*next)++, type, n);
    dl_putf(b, "  %%%d = iota {axis=K} : i32[K=%d]\n", place = (*next)++, n);
    for (int i = row * ROW; i < c->n && i < (row + 1) * ROW; i++) {
        int k = i % (NGIVERS - whole), at = *next;
        dl_putf(b, "  %%%d = const {value=", at), dl_put_double(b, c->at[i]),
            dl_putf(b, "} : %s[]\n", type);
        dl_putf(b, "  %%%d = %s ", at + 1, givers[k].op);
        if (givers[k].first)
            dl_putf(b, "%s%d, %%%d", givers[k].first, row, at);
        else
            dl_putf(b, "%%%d, %s%d", at, givers[k].second, row);
        dl_putf(b, " : %s[K=%d]\n", type, n);
        dl_putf(b, "  %%%d = const {value=%d.0} : i32[]\n", at + 2, i % ROW);
        dl_putf(b, "  %%%d = eq %%%d, %%%d : bool[K=%d]\n", at + 3, place, at + 2, n);
        if (i % ROW)
            dl_putf(b, "  %%%d = select %%%d, %%%d, %%%d : %s[K=%d]\n", at + 4, at + 3, at + 1, all,
                    type, n);
        all = i % ROW ? at + 4 : at + 1, *next = at + 5;
    }
    dl_putf(b, "  output \"o%d\" = %%%d\n", row, all);
}

static char *module_of(const char *type, const numbers *c, bool whole) {
    dl_buf b = {0};
    int next = 0;
    dl_puts(&b, "graph @train {\n");
    for (int row = 0; row * ROW < c->n; row++) put_row(&b, type, c, whole, row, &next);
    dl_puts(&b, "}\n");
    return b.at;
}

/* Fills an input of all rows. Whole numbers have no infinities: their own least and largest. */
static void feed_input(dlr_exec *exec, int t, int n, int input) {
    bool whole = !dl_dtype_is_float(types[t].type);
    const double most = whole ? ldexp(1, types[t].digits) : INFINITY,
                 values[] = {0, 1, -most, most};
    bool largest = whole && values[input] == most; /* which of i64 is no double */
    for (int row = 0; row * ROW < n; row++) {
        char name[16];
        snprintf(name, sizeof name, "%s%d", inputs[input], row);
        dlr_view v = dlr_exec_variable(exec, name);
        if (!v.type) continue;
        double data[ROW + MOST / ROW];
        int64_t whole_data[ROW + MOST / ROW];
        for (int k = 0; k < row_length(row); k++) {
            data[k] = values[input];
            whole_data[k] = types[t].type == DL_I64 ? INT64_MAX : INT32_MAX;
        }
        dlr_state_write(exec, v, largest ? DL_I64 : DL_F64,
                        largest ? (void *)whole_data : (void *)data);
    }
}

static void test_numbers(dl_arena *arena, int t, const numbers *c, const char *target) {
    char *text = module_of(dl_dtype_name(types[t].type), c, !dl_dtype_is_float(types[t].type));
    dl_plan *p = compile_text(arena, text, target, NULL);
    dlr_exec *exec = open_plan(p, 1);
    if (exec) {
        for (int i = 0; i < NINPUTS; i++) feed_input(exec, t, c->n, i);
        dlr_exec_run(exec, 0, NULL);
        double *got = NULL;
        for (int i = 0; i < c->n; i++) {
            char name[16];
            snprintf(name, sizeof name, "o%d", i / ROW);
            if (i % ROW == 0) free(got), got = read_output(exec, 0, name, DL_F64);
            if (!got) break;
            double v = dl_dtype_is_half(types[t].type) ? held(0, c->at[i]) : c->at[i];
            double want = held(t, v); /* next to 16 bits a number is f32, as PyTorch has it */
            CHECK(got[i % ROW] == want, "%s %s: %.17g is %.17g, not %.17g", target,
                  dl_dtype_name(types[t].type), c->at[i], got[i % ROW], want);
        }
        free(got);
        dlr_exec_close(exec);
    }
    free(text);
}

/* The same text as CUDA: NVRTC reads literals by itself. */
static bool has_nvrtc(dl_arena *arena) {
    dl_nvrtc nvrtc = {0};
    dl_error err = {0};
    return dl_nvrtc_find(arena, &nvrtc, &err);
}

/* The rows that this run takes on one of the targets: each row on one always. */
static numbers drawn_rows(const numbers *all, int t, unsigned target) {
    numbers c = {0};
    for (int i = 0; i < all->n; i++) {
        unsigned row = (unsigned)(i / ROW), cell = row + 5 * (unsigned)t;
        if (dl_test_takes_of(cell, target, COMPILED_TARGETS, COMPILED_TARGETS * cell + target))
            c.at[c.n++] = all->at[i];
    }
    return c;
}

int main(void) {
    dl_arena *arena = dl_arena_new(NULL);
    bool cuda = has_nvrtc(arena);
    char dir[] = "/tmp/dlc-constants-XXXXXX";
    CHECK(test_cache(dir), "no folder");
    for (int t = 0; t < NTYPES; t++) {
        numbers c[] = {edges(t), exponents(t)};
        for (int k = 0; k < 2; k++) {
            for (unsigned i = 0; i < COMPILED_TARGETS; i++) {
                const numbers drawn = drawn_rows(&c[k], t, i);
                if (drawn.n) test_numbers(arena, t, &drawn, compiled_targets[i]);
            }
            char *text =
                module_of(dl_dtype_name(types[t].type), &c[k], !dl_dtype_is_float(types[t].type));
            if (cuda && k == 0) compile_text(arena, text, "cuda:sm_90", NULL);
            free(text);
        }
    }
    dl_arena_free(arena);
    return dl_test_end();
}
