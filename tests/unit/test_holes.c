/* Holes of emitted texts (compiler/codegen/holes.h): their templates, and the texts filled. */
#include "compiler/codegen/holes.h"

#include "tests/check.h"

static dl_arena *arena;

static dl_template template_of(const char *structs, const char *body, const char *epilogue) {
    dl_phase p = {.structs = structs, .epilogue = strlen(body)};
    p.body = dl_format(arena, "%s%s", body, epilogue);
    return dl_template_of(arena, &p);
}

/* A number's suffix and place determine its form as an argument; 0: it stays in the text. */
static void test_numbers(void) {
    static const struct {
        const char *hole, *text;
        int kind;
        int64_t value;
    } cases[] = {{"$12$", "12", DL_TEMPLATE_INT, 12},
                 {"$-3$", "-3", DL_TEMPLATE_INT, -3},
                 {"$12U$", "12U", DL_TEMPLATE_UNSIGNED, 12},
                 {"$-12U$", "-12U", 0, 0},
                 {"$12L$", "12L", DL_TEMPLATE_LONG, 12},
                 {"$9223372036854775807L$", "9223372036854775807L", DL_TEMPLATE_LONG, INT64_MAX},
                 {"$12UL$", "12UL", DL_TEMPLATE_UNSIGNED_LONG, 12},
                 {"$1.5f$", "1.5f", DL_TEMPLATE_FLOAT, 0x3FC00000},
                 {"$-1e-05f$", "-1e-05f", DL_TEMPLATE_FLOAT, 0xB727C5AC},
                 {"$1.5$", "1.5", 0, 0}, /* a double */
                 {"$/8$", "8", DL_TEMPLATE_SHIFT, 8},
                 {"$/12$", "12", DL_TEMPLATE_DIVISOR, 12},
                 {"$/12U$", "12U", DL_TEMPLATE_DIVISOR, 12},
                 {"$:12U$", "12U", DL_TEMPLATE_DIVISOR, 12},
                 {"$/12L$", "12L", 0, 0}, /* no argument divides so */
                 {"$/0$", "0", 0, 0},
                 {"$/4294967296$", "4294967296", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_template t = template_of("", dl_format(arena, "a = b / %s;", cases[i].hole), "");
        int found = t.parameters.n ? (int)t.parameters.at[0].kind : 0;
        CHECK(found == cases[i].kind, "%s: kind %d", cases[i].hole, found);
        CHECK_STR(found ? t.parameters.at[0].spelled : t.text + strlen("a = b / "),
                  found ? cases[i].text : dl_format(arena, "%s;", cases[i].text));
        CHECK(!found || t.parameters.at[0].value == cases[i].value, "%s: %lld", cases[i].hole,
              (long long)t.parameters.at[0].value);
        dl_buf plain = {0};
        dl_fill_holes(&plain, cases[i].hole, "k1");
        CHECK_STR(plain.at, cases[i].text);
        dl_buf_free(&plain);
    }
}

/* Equal except for numbers, names and parameters; divisors of a CTA's own index are of any kind. */
static void test_equal(void) {
    static const char *const bodies[] = {
        "float $v3$ = $p2$[$x1$ * $12$]; $a3$ += $v3$; item /= $:8U$; $$_left l; $p2$;",
        "float $v7$ = $p0$[$x0$ * $40$]; $a9$ += $v7$; item /= $:7U$; $$_left l; $p0$;",
        "float $v3$ = $p2$[$x1$ * $12$]; $a3$ += $v4$; item /= $:8U$; $$_left l; $p2$;",
        "float $v3$ = $p2$[$x1$ * $12$]; $a3$ += $v3$; item /= $:8U$; $$_left l; $p1$;",
        "float $v3$ = $p2$[$x1$ * $12L$]; $a3$ += $v3$; item /= $:8U$; $$_left l; $p2$;"};
    dl_template t[5];
    for (int i = 0; i < 5; i++) t[i] = template_of("", bodies[i], "");
    for (int i = 1; i < 5; i++)
        CHECK((strcmp(t[0].text, t[i].text) == 0) == (i == 1), "%d: %s", i, bodies[i]);
    CHECK(t[0].args.n == 1 && t[0].args.at[0] == 2 && t[1].args.at[0] == 0, "its parameters");
    CHECK(t[3].args.n == 2 && t[3].args.at[1] == 1, "another one");
    dl_template alone = template_of("", "$p2$; kd_alias($&p2$); $p2$;", "");
    CHECK(alone.args.n == 2 && alone.args.at[0] == 2 && alone.args.at[1] == 2, "counted alone");
}

/* Structs, the loop and the epilogue are counted in this order. */
static void test_parts(void) {
    dl_template t = template_of("struct $$_item { $members$ n = $4$; };",
                                "$$_item u; $values$ $p1$ $5$ ", "$p3$ $p1$ $6$ $7$");
    CHECK(t.struct_parameters == 1 && t.epilogue_parameter == 2 && t.parameters.n == 4,
          "%d, %d of %d numbers", t.struct_parameters, t.epilogue_parameter, t.parameters.n);
    CHECK(t.epilogue_args == 1 && t.args.n == 2, "%d of %d", t.epilogue_args, t.args.n);
    CHECK(t.text[t.structs] == DL_HOLE_OWN && t.text[t.epilogue_start] == DL_HOLE_PARAM, "%s",
          t.text);
    dl_buf plain = {0};
    dl_fill_holes(&plain, "struct $$_item { $members$ n = $/4$; }; $&p3$ $sums12$", "k1");
    CHECK_STR(plain.at, "struct k1_item {  n = 4; }; p3 sums12");
    dl_buf_free(&plain);
}

int main(void) {
    arena = dl_arena_new(NULL);
    test_numbers();
    test_equal();
    test_parts();
    dl_arena_free(arena);
    return dl_test_end();
}
