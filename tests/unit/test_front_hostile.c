/* Hostile texts and random changes of models: an answer each time, and soon. */
#include "tests/unit/front_models.h"

#include "frontends/dl/front.h"
#include "ir/base/output.h"

#include "tests/check.h"

/* Hostile text */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Checks the text and prints its diagnostics; the time it took. */
static double survive(const char *text, size_t n, int *errors) {
    double begin = seconds();
    dl_arena *arena = dl_arena_new(NULL);
    dl_source *s = dl_source_new(arena, "m.dl", text, n);
    dl_diags *d = dl_diags_new(arena, s);
    dl_buf out = {0};
    bool whole;
    const dl_model *m = dl_model_parse(arena, s, d);
    if (m) dl_model_check(arena, m, d, &whole);
    dl_diags_print(&out, d, true);
    *errors = d->errors;
    dl_buf_free(&out);
    dl_arena_free(arena);
    return seconds() - begin;
}

static void check_hostile(const char *what, const char *before, const char *unit, int count,
                          const char *after) {
    dl_buf b = {0};
    int errors;
    dl_puts(&b, before);
    for (int i = 0; i < count; i++) dl_puts(&b, unit);
    dl_puts(&b, after);
    double t = survive(b.at, b.n, &errors);
    CHECK(errors > 0, "%s is a fault", what);
    if (t > 1) /* the promise of one second is measured here, not tested: machines are busy */
        printf("note: %s took %.2f s\n", what, t);
    dl_buf_free(&b);
}

#define HEAD "model M():\n    input x: f32[N, C=3]\n    output x\n    loss = mean(x)\n    y = "
void test_hostile(void) {
    check_hostile("deep brackets", HEAD, "(", 300000, "\n");
    check_hostile("deep lists", HEAD, "[", 300000, "\n");
    check_hostile("many terms", HEAD "x", " + x", 100000, "\n");
    check_hostile("many stages", HEAD "x", " |> relu", 100000, "\n");
    check_hostile("many signs", HEAD, "-", 300000, "1\n");
    check_hostile("many nots", HEAD, "not ", 300000, "1\n");
    check_hostile("many powers", HEAD "2", "**2", 100000, "\n");
    check_hostile("many conditions", HEAD, "1 if 1 else ", 60000, "1\n");
    check_hostile("many labels", HEAD "x |> relu", "@a", 100000, "\n");
    check_hostile("many braces", HEAD "x |> relu @", "{", 100000, "\n");
    check_hostile("many calls", HEAD "f", "(1)", 100000, "\n");
    check_hostile("a long name", HEAD, "y", 1 << 20, "\n");
    check_hostile("a long string", HEAD "\"", "y", 1 << 20, "\"\n");
    check_hostile("a long number", HEAD, "1", 1 << 20, "\n");
    check_hostile("many stray bytes", HEAD, "$ ", 200000, "\n");
    check_hostile("many lines", HEAD "z\n", "    q = \n", 50000, "");
    check_hostile("many names", HEAD "z\n", "    q = zz + yy\n", 20000, "");
    check_hostile("deeper and deeper", "model M():\n", "  if 1:\n  ", 1000, "y = 1");
    check_hostile("a growing list", HEAD "[1]\n", "    y += y\n", 100, "");
    check_hostile("a growing number", HEAD "3\n", "    y = y * y\n", 100, "");
    check_hostile("modules that double",
                  "module A0()(x): return x + x\n"
                  "module A1()(x): return (x |> A0()) + (x |> A0())\nmodule A2()(x): return (x |> "
                  "A1()) + (x |> A1())\n"
                  "module A3()(x): return (x |> A2()) + (x |> A2())\nmodule A4()(x): return (x |> "
                  "A3()) + (x |> A3())\n"
                  "module A5()(x): return (x |> A4()) + (x |> A4())\nmodule A6()(x): return (x |> "
                  "A5()) + (x |> A5())\n"
                  "module A7()(x): return (x |> A6()) + (x |> A6())\nmodule A8()(x): return (x |> "
                  "A7()) + (x |> A7())\n"
                  "module A9()(x): return (x |> A8()) + (x |> A8())\nmodule A10()(x): return (x |> "
                  "A9()) + (x |> "
                  "A9())\n"
                  "module A11()(x): return (x |> A10()) + (x |> A10())\nmodule A12()(x): return (x "
                  "|> A11()) + (x |> "
                  "A11())\n"
                  "module A13()(x): return (x |> A12()) + (x |> A12())\nmodule A14()(x): return (x "
                  "|> A13()) + (x |> "
                  "A13())\n"
                  "module A15()(x): return (x |> A14()) + (x |> A14())\n",
                  HEAD "x", 1, " |> A15() |> A15()\n");
    dl_buf b = {0};
    int errors;
    for (int i = 0; i < (16 << 20) + 1; i++) dl_puts(&b, " ");
    survive(b.at, b.n, &errors);
    CHECK(errors > 0, "a file over 16 MiB is refused");
    dl_buf_free(&b);
}

uint64_t mutation_state = 88172645463325252u;
static uint64_t draw(uint64_t n) {
    mutation_state ^= mutation_state << 13, mutation_state ^= mutation_state >> 7,
        mutation_state ^= mutation_state << 17;
    return mutation_state % n;
}

/* One to four small changes: a byte, a piece gone, doubled, or taken from elsewhere. */
static size_t mutate(char *text, size_t n, size_t room) {
    static const char *const words[] = {"(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "@",
                                        "|>",
                                        " as ",
                                        " as [C]",
                                        " @enc",
                                        "[1, 2]",
                                        "enc = linear(3)\n    ",
                                        ":",
                                        "=",
                                        "\n",
                                        "    ",
                                        "\t",
                                        "\"",
                                        "0",
                                        "-1",
                                        "9999999999",
                                        "over=",
                                        "x",
                                        "N",
                                        "for i in range(3):",
                                        "if",
                                        "else",
                                        "as [N]",
                                        "**",
                                        "1e308",
                                        "none",
                                        "conv(",
                                        "same",
                                        "input ",
                                        "module A()(x): return x |> A()\n"};
    for (uint64_t k = 1 + draw(4); k > 0 && n > 1; k--) {
        size_t at = draw(n), len = 1 + draw(n - at < 40 ? n - at : 40), to = draw(n);
        const char *w = words[draw(sizeof words / sizeof *words)];
        switch (draw(5)) {
        case 0: text[at] = (char)draw(256); break;
        case 1: memmove(text + at, text + at + len, n - at - len), n -= len; break;
        case 2:
            if (n + len > room) break;
            memmove(text + at + len, text + at, n - at), n += len;
            break;
        case 3:
            if (n + strlen(w) > room) break;
            memmove(text + at + strlen(w), text + at, n - at), n += strlen(w);
            memcpy(text + at, w, strlen(w));
            break;
        default: memmove(text + to, text + at, len < n - to ? len : n - to);
        }
    }
    return n;
}

void test_mutations(long count) {
    static const char *const names[] = {
        "cnn_regressor.dl", "cnn_classifier.dl", "unet.dl",    "vit.dl",
        "resnet.dl",        "convnext.dl",       "resunet.dl", "../tests/data/language.dl"};
    dl_arena *arena = dl_arena_new(NULL);
    double worst = 0;
    long faulty = 0;
    for (long i = 0; i < count; i++) {
        dl_arena *one = dl_arena_new(arena);
        size_t n = 0;
        int errors;
        const char *text = read_model(one, names[draw(sizeof names / sizeof *names)], &n);
        char *copy = dl_alloc(one, 2 * n + 4096);
        memcpy(copy, text, n);
        n = mutate(copy, n, 2 * n + 4096);
        /* Names the text, in case it is the last one. */
        if (getenv("DL_KEEP")) {
            dl_error err = {0};
            dl_write_file(getenv("DL_KEEP"), copy, n, &err);
        }
        double t = survive(copy, n, &errors);
        faulty += errors > 0;
        if (t > worst) worst = t;
        dl_arena_free(one);
    }
    CHECK(faulty > count / 4, "most mutations are faults: %ld", faulty);
    printf("%ld mutations, %ld faulty, the slowest took %.3f s\n", count, faulty, worst);
    dl_arena_free(arena);
}
