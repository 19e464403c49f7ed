/* The YAML reader: scalars, anchors and merges, and every fault with its place. */
#include "frontends/yaml/yaml_tree.h"
#include "tests/check.h"
#include <stdlib.h>

static dl_arena *arena;

static const dl_yaml *read_n(const char *text, size_t n, dl_error *err) {
    *err = (dl_error){0};
    return dl_yaml_read(arena, text, n, "f.yaml", err);
}
static const dl_yaml *read_ok(const char *text) {
    dl_error err;
    const dl_yaml *v = read_n(text, strlen(text), &err);
    CHECK(v, "%s: %s", text, err.message);
    return v ? v : dl_yaml_plain(arena, "", (dl_yaml_place){0});
}

static void check_fault_n(const char *text, size_t n, const char *want) {
    dl_error err;
    CHECK(!read_n(text, n, &err) && err.code == DL_INPUT, "%s", text);
    CHECK(strncmp(err.message, want, strlen(want)) == 0, "got '%s', want '%s...'", err.message,
          want);
}
static void check_fault(const char *text, const char *want) {
    check_fault_n(text, strlen(text), want);
}

/* One line of YAML for the value: what the tree holds, independent of how it was written. */
static const char *flat(const dl_yaml *v) {
    dl_buf b = {0};
    dl_yaml_put(&b, v);
    const char *s = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return s;
}

static void test_scalars(void) {
    static const struct {
        const char *text;
        dl_yaml_kind kind;
        double number;
    } cases[] = {
        {"5E-4", DL_YAML_FLOAT, 5e-4},
        {"2.E-4", DL_YAML_FLOAT, 2e-4},
        {"0.", DL_YAML_FLOAT, 0},
        {".5", DL_YAML_FLOAT, .5},
        {"-1.5e+3", DL_YAML_FLOAT, -1500},
        {"+7", DL_YAML_INT, 7},
        {"007", DL_YAML_INT, 7},
        {"0o17", DL_YAML_INT, 15},
        {"0xfF", DL_YAML_INT, 255},
        {"9223372036854775807", DL_YAML_INT, 9223372036854775807.},
        {"9223372036854775808", DL_YAML_FLOAT, 9223372036854775808.},
        {"-.inf", DL_YAML_FLOAT, -HUGE_VAL},
        {"1e999", DL_YAML_FLOAT, HUGE_VAL},
        {"1_000", DL_YAML_STRING, 0},
        {"0x", DL_YAML_STRING, 0},
        {"0x0x12", DL_YAML_STRING, 0},
        {"0o8", DL_YAML_STRING, 0},
        {"-0x10", DL_YAML_STRING, 0},
        {".", DL_YAML_STRING, 0},
        {"1e", DL_YAML_STRING, 0},
        {"e5", DL_YAML_STRING, 0},
        {"1.2.3", DL_YAML_STRING, 0},
        {"1:30", DL_YAML_STRING, 0},
        {"nan", DL_YAML_STRING, 0},
        {"+.nan", DL_YAML_STRING, 0},
        {"inf", DL_YAML_STRING, 0},
        {"none", DL_YAML_STRING, 0},
        {"yes", DL_YAML_STRING, 0},
        {"tRUE", DL_YAML_STRING, 0},
        {"True", DL_YAML_BOOL, 0},
        {"false", DL_YAML_BOOL, 0},
        {"None", DL_YAML_NULL, 0},
        {"~", DL_YAML_NULL, 0},
        {"null", DL_YAML_NULL, 0},
        {"", DL_YAML_NULL, 0},
        {"'5'", DL_YAML_STRING, 0},
        {"\"true\"", DL_YAML_STRING, 0},
        {"! 5", DL_YAML_STRING, 0},
        {"!!str 5", DL_YAML_STRING, 0},
        {"!!float 5", DL_YAML_FLOAT, 5},
        {"!!int '5'", DL_YAML_INT, 5},
        {"!!bool yes", DL_YAML_BOOL, 0},
        {"!!bool 'false'", DL_YAML_BOOL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_yaml *v = read_ok(cases[i].text);
        CHECK(v->kind == cases[i].kind, "%s is kind %d", cases[i].text, v->kind);
        if (v->kind == DL_YAML_FLOAT || v->kind == DL_YAML_INT)
            CHECK(v->number == cases[i].number, "%s is %g", cases[i].text, v->number);
    }
    CHECK(isnan(read_ok(".NaN")->number));
    CHECK(read_ok("!!bool yes")->truth && read_ok("True")->truth && !read_ok("!!bool off")->truth,
          " ");
    CHECK(read_ok("9223372036854775807")->integer == INT64_MAX, " ");
    CHECK_STR(read_ok("a: 007")->entries.at[0].value->text, "007");
    check_fault("a: !!int 5.5", "f.yaml:1:4: error: '5.5' is no !!int");
    check_fault("a: !!bool maybe", "f.yaml:1:4: error: 'maybe' is no !!bool");
    check_fault("a: !include x", "f.yaml:1:4: error: unknown tag '!include'");
    check_fault("a: !!python/object 5", "f.yaml:1:4: error: '5' is no !!python/object");
    check_fault("a: !!map [1]", "f.yaml:1:4: error: a list is no !!map");
}

static void test_structure(void) {
    const dl_yaml *v = read_ok("a: {b: 1, c: [x, 2.5]}\nd:\n  - ~\n  - e: true\n# end\n");
    CHECK_STR(flat(v), "{'a': {'b': 1, 'c': ['x', 2.5]}, 'd': [null, {'e': true}]}");
    const dl_yaml *c = dl_yaml_get(dl_yaml_get(v, "a"), "c");
    CHECK(c->place.line == 1 && c->place.column == 14, "%d:%d", c->place.line, c->place.column);
    CHECK(!dl_yaml_get(v, "b"), " ");
    CHECK(read_ok("# nothing\n")->kind == DL_YAML_NULL, " ");
    CHECK(read_ok("%YAML 1.2\n---\na: 1\n...\n")->kind == DL_YAML_MAP, " ");
    CHECK_STR(flat(read_ok("\xef\xbb\xbf"
                           "a: 'it''s'\r\nb: \"\\e[1m\\n\"\r\n")),
              "{'a': 'it''s', 'b': \"\\x1b[1m\\x0a\"}");
    CHECK_STR(flat(read_ok("a: |\n  two\n  lines\n")), "{'a': \"two\\x0alines\\x0a\"}");
}

static void test_merges(void) {
    const char *base = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\n";
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"z: {<<: *x}", "{'a': 1, 'b': 2}"},
        {"z: {b: 9, <<: *x}", "{'b': 9, 'a': 1}"},
        {"z: {<<: *x, b: 9}", "{'b': 9, 'a': 1}"}, /* the map's own key wins wherever it stands */
        {"z: {<<: [*x, *y]}", "{'a': 1, 'b': 2, 'c': 4}"},
        {"z: {<<: [*y, *x], a: ~}", "{'a': null, 'b': 3, 'c': 4}"},
        {"z: {<<: {a: 5}, b: 6}", "{'b': 6, 'a': 5}"},
        {"w: &w {<<: *x, a: 7}\nz: {<<: *w, c: 8}",
         "{'c': 8, 'a': 7, 'b': 2}"},               /* a merge of a merge */
        {"z: {'<<': 1}", "{'<<': 1}"},              /* quoted: a name like any other */
        {"x2: &x {a: 6}\nz: {<<: *x}", "{'a': 6}"}, /* an anchor set again */
        {"z: [*x, *x]", "[{'a': 1, 'b': 2}, {'a': 1, 'b': 2}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_yaml *v = read_ok(dl_format(arena, "%s%s\n", base, cases[i].text));
        CHECK_STR(flat(dl_yaml_get(v, "z")), cases[i].want);
    }
    check_fault("z: {<<: 5}", "f.yaml:1:5: error: '<<' merges a map or a list of maps, not '5'");
    check_fault("z: {<<: [5]}", "f.yaml:1:5: error: '<<' merges");
    check_fault("z:\n  <<: {a: 1}\n  <<: {b: 1}\n",
                "f.yaml:3:3: error: duplicate key '<<' (first on line 2); merge");
}

static void test_faults(void) {
    check_fault("base: &b\n  a: [1, 2\n",
                "f.yaml:2:6: error: while parsing a flow sequence that begins here");
    check_fault("a: 'x\nb: 1\n", "f.yaml:1:4: error: while scanning a quoted scalar");
    check_fault("a: 1\n b: 2\n",
                "f.yaml:2:3: error: mapping values are not allowed in this context: indent "
                "the line as its neighbours, or");
    check_fault(
        "a: 'it's'\nb: 2\n",
        "f.yaml:1:8: error: did not find expected key: indent the lines of a map alike, and put");
    check_fault(
        "a:\n\tb: 2\n",
        "f.yaml:2:1: error: found character that cannot start any token: indent with blanks");
    check_fault(
        "a: 1\nb: @x\n",
        "f.yaml:2:4: error: found character that cannot start any token: put what has such");
    check_fault("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: error: duplicate key 'a' (first on line 1)");
    check_fault("x: {a: 1, \"a\": 2}", "f.yaml:1:11: error: duplicate key 'a'");
    check_fault("a: *nowhere", "f.yaml:1:4: error: no anchor '&nowhere'");
    check_fault("a: &a {b: *a}", "f.yaml:1:11: error: '*a' stands inside the value that it names");
    check_fault("a: &a\n  <<: *a\n", "f.yaml:2:7: error: '*a' stands inside");
    check_fault("[1, 2]: 3", "f.yaml:1:1: error: a key must be a name");
    check_fault("'': 3", "f.yaml:1:1: error: a key is missing");
    check_fault("a: 1\n---\nb: 2\n", "f.yaml:2:1: error: a second document");
    check_fault("a: \"x\\0y\"", "f.yaml:1:4: error: a NUL character inside a string");
    check_fault("\"x\\0y\": 1", "f.yaml:1:1: error: a NUL character inside a key");
    check_fault_n("a: 1\nb: x\0y\n", 12, "f.yaml:2:5: error: control characters are not allowed");
    check_fault("a: 1\nb: \xff\n", "f.yaml:2:4: error: invalid leading UTF-8 octet (0xFF)");
    check_fault("b: \xc3(\n", "f.yaml:1:5: error: invalid trailing UTF-8 octet");
}

/* `open` n times, then the value 1, then `close` n times. */
static const char *nested(const char *open, const char *close, int n) {
    dl_buf b = {0};
    for (int i = 0; i < n; i++) dl_puts(&b, open);
    dl_puts(&b, "1");
    for (int i = 0; i < n; i++) dl_puts(&b, close);
    const char *s = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return s;
}

static void test_limits(void) {
    dl_buf b = {0};
    CHECK(read_ok(nested("[", "]", 31))->height == 32, " ");
    check_fault(nested("[", "]", 32), "f.yaml:1:33: error: nested more than 32 deep");
    check_fault(nested("{a: ", "}", 200000), "f.yaml:1:129: error: nested more than 32 deep");
    check_fault(nested("[", "", 200000), "f.yaml:1:33: error: nested more than 32 deep");

    /* Depth that only aliases build: each line one level on the one before. */
    dl_puts(&b, "a0: &a0 [1]\n");
    for (int i = 1; i < 40; i++) dl_putf(&b, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    check_fault(b.at, "f.yaml:31:12: error: nested more than 32 deep");

    /* A billion laughs: ten times the one before, nine times over. */
    b.n = 0;
    dl_puts(&b, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 10; i++) {
        dl_putf(&b, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++) dl_putf(&b, "%s*a%d", j ? ", " : "", i - 1);
        dl_puts(&b, "]\n");
    }
    check_fault(b.at, "f.yaml:5:");
    dl_error err;
    read_n(b.at, b.n, &err);
    CHECK(strstr(err.message, "more than 50000 values once aliases and merges are expanded"), "%s",
          err.message);

    /* The same by merges. */
    b.n = 0;
    dl_puts(&b, "m: &m {");
    for (int i = 0; i < 1000; i++) dl_putf(&b, "k%d: 1, ", i);
    dl_puts(&b, "}\n");
    for (int i = 0; i < 40; i++) dl_putf(&b, "n%d: {<<: *m}\n", i);
    check_fault(b.at, "f.yaml:13:");

    b.n = 0;
    dl_puts(&b, "[");
    for (int i = 0; i < DL_YAML_MAX_VALUES - 1; i++) dl_puts(&b, "1,");
    dl_puts(&b, "]");
    CHECK(read_ok(b.at)->items.n == DL_YAML_MAX_VALUES - 1, " ");
    b.n--;
    dl_puts(&b, "1]");
    check_fault(b.at, "f.yaml:1:");

    char *large = calloc(1, (size_t)DL_YAML_MAX_BYTES + 2);
    memset(large, '#', (size_t)DL_YAML_MAX_BYTES + 1);
    check_fault(large, "f.yaml is larger than the 16 MiB");
    free(large);
    dl_buf_free(&b);
    err = (dl_error){0};
    CHECK(!dl_yaml_read_file(arena, "/nonexistent/x.yaml", &err) && err.code == DL_IO, "%s",
          err.message);
}

static void test_text(void) {
    static const struct {
        const char *text, *yaml, *python;
    } cases[] = {
        {"2.E-4", "0.0002", "0.0002"},
        {"1E-5", "1e-05", "1e-05"},
        {"0.", "0.0", "0.0"},
        {"100.", "100.0", "100.0"},
        {"1e16", "1e+16", "1e+16"},
        {"123456789012.5", "123456789012.5", "123456789012.5"},
        {"0.1", "0.1", "0.1"},
        {"-.inf", "-.inf", "-inf"},
        {".nan", ".nan", "nan"},
        {"True", "true", "True"},
        {"None", "null", "None"},
        {"lowmem", "'lowmem'", "lowmem"},
        {"[1, 'a''b']", "[1, 'a''b']", "[1, 'a\\'b']"},
        {"{a: 1.}", "{'a': 1.0}", "{'a': 1.0}"},
        {"3.141592653589793", "3.141592653589793", "3.141592653589793"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dl_yaml *v = read_ok(cases[i].text);
        dl_buf b = {0};
        dl_yaml_put_python(&b, v);
        CHECK_STR(flat(v), cases[i].yaml);
        CHECK_STR(b.at, cases[i].python);
        CHECK_STR(flat(read_ok(flat(v))), cases[i].yaml);
        dl_buf_free(&b);
    }
    CHECK_STR(dl_yaml_quote(arena, "a\x1b[2Jb"), "'a?[2Jb'");
    char text[90]; /* the cut falls into a two-byte character */
    memset(text, 'x', sizeof text);
    memcpy(text + 79, "\xc3\xa9...", 6);
    CHECK(strcmp(dl_yaml_quote(arena, text) + 80, "...'") == 0, "%s", dl_yaml_quote(arena, text));
}

int main(void) {
    arena = dl_arena_new(NULL);
    test_scalars();
    test_structure();
    test_merges();
    test_faults();
    test_limits();
    test_text();
    dl_arena_free(arena);
    return dl_test_end();
}
