/* Model text: parser, elaboration, and every pass on what elaboration accepts. */
#include <stdio.h>

#include "frontends/dl/front.h"
#include "passes/pass.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_source *source = dl_source_new(arena, "fuzz.dl", (const char *)data, n);
    dl_diags *diags = dl_diags_new(arena, source);
    dl_model *model = dl_model_parse(arena, source, diags);
    const dl_axis_size sizes[] = {{"N", 2}, {"D", 4}, {"H", 4}, {"W", 4}};
    const dl_model_config config = {.sizes = sizes, .nsizes = 4};
    dl_module *module = model ? dl_model_build(arena, model, &config, diags) : NULL;
    FUZZ_CHECK(module || diags->errors > 0);
    dl_buf out = {0};
    dl_diags_print(&out, diags, false);
    dl_buf_free(&out);
    if (module && diags->errors == 0) {
        dl_error err = {0};
        dl_pass_ctx ctx = {.arena = arena, .weights = {.kind = DL_PANEL, .width = 16}, .err = &err};
        dl_run_passes(module, dl_pipeline, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES});
        if (err.code == DL_INTERNAL) fprintf(stderr, "%s\n", err.message);
        FUZZ_CHECK(err.code != DL_INTERNAL);
    }
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {"model",   "module",   "input",      "target",
                                        "output",  "loss",     "metric",     "figure",
                                        "param",   "buffer",   "init",       "for",
                                        "if",      "else",     "return",     "range(",
                                        "conv(",   "linear(",  "relu",       "mean(",
                                        "sum(",    "max(",     "abs(",       "over=",
                                        "stride=", "pad=",     "@{i}",       "|>",
                                        "cat(",    "x",        "y",          "t",
                                        "f32[",    "N, ",      "C=",         "as [",
                                        "**",      "//",       "%",          "==",
                                        "[0]",     "[C=0]",    "[C=1:2]",    "linspace(",
                                        "sqrt(",   "norm(",    "exp(",       "log(",
                                        "where(",  "dropout(", "batch_norm", "~ normal(0, 1)",
                                        "\n    ",  "\n",       "    ",       "(",
                                        ")",       "]",        NULL};
    fuzz_random r = {seed};
    return fuzz_mutate_text((char *)data, n, max, words, &r);
}
