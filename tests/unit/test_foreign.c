/* Foreign text (paths, names): every byte, and every pair of bytes, in every place, read back by
 * who will read it: a scan, the IR's parser, the JSON reader, the C compiler. */
#include <stdlib.h>
#include <unistd.h>

#include "compiler/jit/jit_cc.h"
#include "compiler/target/backend.h"
#include "ir/base/foreign.h"
#include "ir/base/object.h"
#include "ir/base/utf8.h"
#include "ir/text/text.h"
#include "runtime/formats/json.h"
#include "tests/check.h"

static const char *put(dl_buf *b, dl_place place, const char *s) {
    b->n = 0;
    dl_putn(b, "", 0);
    dl_put_foreign(b, place, s);
    return b->at;
}

/* The bytes that a terminal acts on, and those that hide or reorder text: written down once more,
 * by the bytes.
 */
static bool is_plain(const char *s, bool tab) {
    for (size_t left = strlen(s); left;) {
        const unsigned char *u = (const unsigned char *)s;
        int n = dl_utf8_length(s, left);
        if (n == 0 || *u == 0x7F || (*u < 0x20 && !(tab && *u == '\t'))) return false;
        if (n == 2 && u[0] == 0xC2 && u[1] < 0xA0) return false;
        if (n == 3 && u[0] == 0xE2 && u[1] == 0x80 &&
            (u[2] == 0xAE || u[2] == 0x8E || u[2] == 0xA8))
            return false;
        s += n, left -= (size_t)n;
    }
    return true;
}

static bool is_utf8(const char *s) {
    for (size_t left = strlen(s); left;) {
        int n = dl_utf8_length(s, left);
        if (n == 0) return false;
        s += n, left -= (size_t)n;
    }
    return true;
}

/* The text that a C compiler makes of the body of a literal. */
static void read_literal(char *out, const char *s) {
    for (; *s; s++) {
        if (*s != '\\') {
            *out++ = *s;
            continue;
        }
        *out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
        s += 3;
    }
    *out = 0;
}

static bool survives_json(const char *text, const char *s) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *quoted = dl_format(arena, "\"%s\"", text);
    const dlr_json *v = dlr_json_parse(arena, quoted, strlen(quoted),
                                       (dlr_json_limits){.depth = 2, .values = 2}, "t", &err);
    bool ok = v && (!is_utf8(s) || strcmp(v->string, s) == 0);
    dl_arena_free(arena);
    return ok;
}

static void check_text(const char *s) {
    dl_buf b = {0};
    char back[64];
    const char *t = put(&b, DL_IN_COMMENT, s);
    bool ok = is_plain(t, false) && !strpbrk(t, "*?");
    for (const char *p = t; ok && (p = strchr(p, '\\')); p++)
        ok = p[1] == 'x'; /* no \ at the end of a line */
    t = put(&b, DL_IN_LITERAL, s);
    read_literal(back, t);
    ok = ok && is_plain(t, false) && !strpbrk(t, "\"?") && strcmp(back, s) == 0;
    ok = ok && is_plain(put(&b, DL_IN_LINE, s), true) && is_plain(put(&b, DL_IN_IR, s), false);
    t = put(&b, DL_IN_JSON, s);
    ok = ok && is_plain(t, false) && survives_json(t, s);
    if (!ok || dl_tests_failed)
        CHECK(ok, "bytes %02x %02x", (unsigned char)s[0], (unsigned char)s[1]);
    dl_tests_passed += ok;
    dl_buf_free(&b);
}

static const char *const nasty[] = {"*/",
                                    "/*",
                                    "//",
                                    "\\\n",
                                    "?\?/\n",
                                    "?\?/",
                                    "\"",
                                    "\\\"",
                                    "'",
                                    "\n",
                                    "\r\n",
                                    "\033[31m",
                                    "\033]0;x\a",
                                    "\xC2\x9B\x33",
                                    "\xE2\x80\xAE",
                                    "\xE2\x80\xA8",
                                    "\xC3",
                                    "\xFF\xFE",
                                    "*/\n#if 0\n/*",
                                    "%s%n",
                                    "${x}",
                                    "\x7F",
                                    "é",
                                    "*\xC3/",
                                    "\xF0\x9F\x8C\x8C",
                                    "#",
                                    "`id`",
                                    "\t"};
enum { NNASTY = sizeof nasty / sizeof *nasty };

static void test_bytes(void) {
    for (int a = 1; a < 256; a++) {
        check_text((char[]){(char)a, 0, 0});
        for (int b = 1; b < 256; b++) check_text((char[]){(char)a, (char)b, 0});
    }
    for (int i = 0; i < NNASTY; i++)
        for (int j = 0; j < NNASTY; j++) {
            char s[64];
            snprintf(s, sizeof s, "%s%s", nasty[i], nasty[j]);
            check_text(s);
        }
    dl_buf b = {0};
    CHECK_STR(put(&b, DL_IN_COMMENT, "d*/é.dl"), "d\\x2A/é.dl");
    CHECK_STR(put(&b, DL_IN_LITERAL, "a\"\n1"), "a\\042\\0121");
    CHECK_STR(put(&b, DL_IN_IR, "a\"\\\033"), "a\\\"\\\\\\x1B");
    CHECK_STR(put(&b, DL_IN_XML, "a<b>&\"'\x01\xC2\x9B\xFF\xC3\xA9"),
              "a&#60;b&#62;&#38;&#34;&#39;\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9");
    CHECK_STR(put(&b, DL_IN_JSON, "a\"\n\x01\xC2\x9B\xFF"), "a\\\"\\n\\u0001\\u009b\xEF\xBF\xBD");
    CHECK_STR(put(&b, DL_IN_LINE, "a\\\t\033[m\xC2\x9B"), "a\\\t\\x1B[m\\xC2\\x9B");
    dl_buf_free(&b);
}

/* The compiler itself: each text in both kinds of comment, in a literal and after #line, with
 * trigraphs on; the code counts the literals that differ from their bytes. */
static void put_case(dl_buf *c, const char *s) {
    dl_puts(c, "/* "), dl_put_foreign(c, DL_IN_COMMENT, s), dl_puts(c, " */\n// ");
    dl_put_foreign(c, DL_IN_COMMENT, s), dl_puts(c, " \n#line 1 \""),
        dl_put_foreign(c, DL_IN_LITERAL, s);
    dl_puts(c, "\"\n{ static const char t[] = \""), dl_put_foreign(c, DL_IN_LITERAL, s);
    dl_puts(c, "\"; static const unsigned char b[] = {");
    for (const char *p = s; *p; p++) dl_putf(c, "%d,", (unsigned char)*p);
    dl_puts(
        c,
        "0}; bad += sizeof t != sizeof b || __builtin_memcmp(t, b, sizeof b) != 0; cases++; }\n");
}

static void test_compiler(dl_arena *arena, const char *dir) {
    dl_buf c = {0};
    dl_puts(&c, "void count(long *out) { long bad = 0, cases = 0;\n");
    for (int a = 1; a < 256; a++) put_case(&c, (char[]){(char)a, 0});
    for (int i = 0; i < NNASTY; i++)
        for (int j = 0; j < NNASTY; j++) put_case(&c, dl_format(arena, "%s%s", nasty[i], nasty[j]));
    dl_puts(&c, "out[0] = bad, out[1] = cases; }\n");
    dl_target t = {.name = "test", .flags = {"-trigraphs", NULL}};
    dl_plan_object o = {.source = c.at};
    dl_error err = {0};
    int compiled;
    setenv("DLR_CACHE_DIR", dir, 1);
    bool ok = dl_jit_compile(arena, 1, &o, &t, NULL, &compiled, &err);
    CHECK(ok, "%s", err.message);
    dl_object object;
    ok = ok && dl_object_load(&object, o.image, o.bytes, &err);
    long out[2] = {-1, -1};
    if (ok) {
        void (*count)(long *) = (void (*)(long *))(uintptr_t)dl_object_find(&object, "count");
        count(out);
        dl_object_unload(&object);
    }
    CHECK(out[0] == 0 && out[1] == 255 + NNASTY * NNASTY, "%ld of %ld literals are wrong", out[0],
          out[1]);
    dl_buf_free(&c);
}

/* A path in a location: printed, parsed, printed again. */
static void test_ir(dl_arena *arena) {
    int same = 0;
    for (int i = 0; i < NNASTY; i++) {
        dl_buf text = {0}, again = {0};
        dl_puts(&text, "graph @train {\n  input $x = %0 : f32[N=2]   # \"");
        dl_put_foreign(&text, DL_IN_IR, nasty[i]);
        dl_puts(&text, ".dl\":3:1\n  %1 = neg $x : f32[N=2]\n  output \"y\" = %1\n}\n");
        dl_error err = {0};
        dl_module *m = dl_parse_module(arena, text.at, text.n, "t.dlir", &err);
        CHECK(m, "%s", err.message);
        if (m) {
            dl_print_module(&again, m, (dl_print_options){.locations = true});
            dl_module *n = dl_parse_module(arena, again.at, again.n, "t.dlir", &err);
            const char *first = m->graphs.at[0]->vars.at[0]->loc.file,
                       *second = n ? n->graphs.at[0]->vars.at[0]->loc.file : NULL;
            same += first == second && !strcmp(first, dl_format(arena, "%s.dl", nasty[i]));
        }
        dl_buf_free(&text), dl_buf_free(&again);
    }
    CHECK(same == NNASTY, "%d of %d paths survive", same, NNASTY);
}

/* A kernel's place in its source, and its name. */
static void test_emitter(dl_arena *arena) {
    dl_error err = {0};
    const dl_target *t = dl_target_find(NULL, "cpu:generic", &err);
    dl_kernel k = {.name = "k0", .schedule = {.kind = DL_BY_POINTS}};
    dl_emitted code;
    for (int i = 0; i < NNASTY; i++) {
        dl_buf out = {0};
        k.locs.n = 0;
        dl_push(arena, &k.locs, (dl_loc){nasty[i], 7, 1});
        t->backend->emit(arena, &out, &k, t, &code, &err);
        char *end = out.at ? strstr(out.at, ":7 */\n") : NULL;
        CHECK(end && strstr(out.at, "*/") == end + 3, "%s", out.at);
        dl_buf_free(&out);
    }
    static const char *const bad[] = {"", "0k", "k 0", "k;", "k*/", "k\n", "é", "k.0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dl_buf out = {0};
        dl_error refused = {0};
        k.name = bad[i];
        CHECK(!t->backend->emit(arena, &out, &k, t, &code, &refused) && refused.code == DL_INPUT &&
                  !out.n,
              "'%s'", bad[i]);
        dl_buf_free(&out);
    }
}

/* A kernel whose loops nobody has chosen, or that has loops of another target. */
static void test_schedules(dl_arena *arena) {
    static const struct {
        dl_loop_kind kind;
        const char *says;
    } cases[] = {{DL_BY_NOTHING, "kernel @k0 has no schedule"},
                 {DL_BY_THREAD, "this target does not run it by schedule per_thread"}};
    dl_error err = {0};
    const dl_target *t = dl_target_find(NULL, "cpu:generic", &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_kernel k = {.name = "k0", .schedule = {.kind = cases[i].kind}};
        dl_buf out = {0};
        dl_emitted code;
        dl_error refused = {0};
        CHECK(!t->backend->emit(arena, &out, &k, t, &code, &refused) && refused.code == DL_INPUT &&
                  strstr(refused.message, cases[i].says),
              "%s", refused.message);
        dl_buf_free(&out);
    }
}

static void test_errors(void) {
    dl_error err = {0};
    dl_fail(&err, DL_INPUT, "cannot open %s", "a\033]0;b\a\nc\xC2\x9B\xFF");
    CHECK_STR(err.message, "cannot open a\\x1B]0;b\\x07\\x0Ac\\xC2\\x9B\\xFF");
    char longest[3000];
    memset(longest, '\n', sizeof longest - 1), longest[sizeof longest - 1] = 0;
    dl_error cut = {0};
    dl_fail(&cut, DL_INPUT, "%s", longest);
    CHECK(is_plain(cut.message, false) && strlen(cut.message) > sizeof cut.message - DL_PIECE);
}

int main(void) {
    char dir[] = "/tmp/dlc_foreign_XXXXXX";
    if (!mkdtemp(dir)) return 1;
    dl_arena *arena = dl_arena_new(NULL);
    test_bytes();
    test_errors();
    test_ir(arena);
    test_emitter(arena);
    test_schedules(arena);
    test_compiler(arena, dir);
    if (system(dl_format(arena, "rm -rf '%s'", dir)) != 0) return 1;
    dl_arena_free(arena);
    return dl_test_end();
}
