/* IR text: the parser; the printer, which must be its inverse; the passes on what the parser
 * accepts. */
#include <stdio.h>
#include <string.h>

#include "ir/text/text.h"
#include "passes/pass.h"
#include "tests/fuzz/fuzz.h"

static dl_buf print(const dl_module *m) {
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){.locations = true});
    return b;
}

/* "# passes: a,b" in the first line names the passes, as in tests/golden/passes; the whole pipeline
 * without it. */
static const char *passes_of(dl_arena *arena, const char *text, size_t n) {
    static const char head[] = "# passes: ";
    const char *end = memchr(text, '\n', n);
    if (!end || n < sizeof head || memcmp(text, head, sizeof head - 1) != 0) return dl_pipeline;
    return dl_strndup(arena, text + sizeof head - 1, (size_t)(end - text) - (sizeof head - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_module *m = dl_read_module(arena, (const char *)data, n, "fuzz.dlir", &err);
    FUZZ_CHECK(m || err.code == DL_INPUT);
    if (m) {
        dl_buf once = print(m);
        dl_module *again =
            dl_parse_module(arena, once.at ? once.at : "", once.n, "again.dlir", &err);
        FUZZ_CHECK(again);
        dl_buf twice = print(again);
        FUZZ_CHECK(once.n == twice.n && (once.n == 0 || memcmp(once.at, twice.at, once.n) == 0));
        dl_buf_free(&once), dl_buf_free(&twice);
        dl_pass_ctx ctx = {.arena = arena, .weights = {.kind = DL_PANEL, .width = 16}, .err = &err};
        dl_run_passes(m, passes_of(arena, (const char *)data, n), &ctx,
                      (dl_pass_options){.validate = DL_VALIDATE_PASSES});
        if (err.code == DL_INTERNAL) fprintf(stderr, "%s\n", err.message);
        FUZZ_CHECK(err.code != DL_INTERNAL);
    }
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {
#define OP(id, name, ...) name,
#include "ir/ops.def"
#undef OP
        "f32[",       "f64[",
        "i32[",       "bool[",
        "@cl",        "@panel16",
        "{over=[N]}", "{axis=0}",
        "%0",         "%1",
        "%9",         "$w",
        "N=2",        "C=0",
        "->",         "graph @train",
        "kernel @k0", "result loss",
        "update",     "param",
        "load",       "store",
        "space(",     "fused",
        "body @b {",  "scan @b($x, $w)",
        "at 64",      "schedule rows {over=[N], phases=1}",
        NULL};
    fuzz_random r = {seed};
    return fuzz_mutate_text((char *)data, n, max, words, &r);
}
