/* `dlc opt`: passes on textual IR, for tests and for looking at one pass. */
#include <string.h>

#include "ir/base/input.h"
#include "ir/text/text.h"
#include "runtime/analyze/analyze.h"

static const dl_option options[] = {
    {"passes", 0, "[LIST]", "comma-separated passes, in order; empty: none"},
    {"target", 0, "TARGET", "whose vectors layout and fusion are for"},
    {"keep-gradients", 0, NULL, "gradients stay results of the train graph"},
    {"low", 0, "TYPE", "mixed precision in bf16 or f16"},
    {"low-products", 0, NULL,
     "as for a target that multiplies 16 bits: weights have copies in them"},
    DL_OPTION_HELP,
    {0},
};

static void put_usage(dl_buf *b) {
    dl_puts(b, "usage: dlc opt [--passes=LIST] FILE.dlir\n\nReads a module in textual IR "
               "(docs/internals/ir.md), runs the passes and prints it.\n\npasses:\n");
    for (int i = 0; i < dl_npasses; i++)
        dl_putf(b, "  %-12s %s\n", dl_passes[i].name, dl_passes[i].help);
    dl_putf(b, "\n`dlc compile` runs: %s\n\noptions:\n", dl_pipeline);
}

/* The type that --low names; f32 where it is not given. */
static bool read_low(const char *name, dl_dtype *low, dl_error *err) {
    static const dl_dtype types[] = {DL_BF16, DL_F16};
    for (int i = 0; name && i < 2; i++)
        if (!strcmp(name, dl_dtype_name(types[i]))) return *low = types[i], true;
    return !name || dl_fail(err, DL_USAGE, "--low=%.80s: bf16 or f16", name);
}

static bool run(dl_invocation *call, dl_error *err) {
    dl_arena *arena = call->arena;
    dl_config *c = call->config;
    if (!dl_config_finish(c, err)) return false;
    if (c->positional.n != 1)
        return dl_fail(err, DL_USAGE, "usage: dlc opt [--passes=LIST] FILE.dlir");
    const dl_target *t = dl_target_find(arena, dl_config_option(c, "target"), err);
    if (!t) return false;
    dl_pass_ctx ctx = {.arena = arena,
                       .weights = t->weights,
                       .expanded = t->expanded,
                       .loops = t->loops,
                       .contractions = t->contractions,
                       .err = err};
    if (dl_config_option(c, "low-products")) ctx.half_gemms = 1u << DL_F16 | 1u << DL_BF16;
    if (!read_low(dl_config_option(c, "low"), &ctx.step_options.low, err)) return false;
    ctx.keep_gradients = dl_config_option(c, "keep-gradients") != NULL;
    const char *list = dl_config_option(c, "passes");
    dl_module *none =
        dl_module_new(arena); /* unknown passes are reported before the file is read */
    dl_pass_options how = {.skip = list};
    if (list && !dl_run_passes(none, list, &ctx, how)) return false;
    size_t n;
    char *text = dl_read_input(arena, c->positional.at[0], 16 << 20, &n, err);
    dl_module *m = text ? dl_read_module(arena, text, n, c->positional.at[0], err) : NULL;
    how = (dl_pass_options){.validate = DL_VALIDATE_PASSES};
    if (!m || !dl_run_passes(m, list ? list : "", &ctx, how)) return false;
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){.locations = true});
    dl_console_puts(call->out, b.at);
    dl_buf_free(&b);
    return true;
}

const dl_subcommand dl_subcommand_opt = {
    .name = "opt",
    .help = "run passes on textual IR",
    .put_usage = put_usage,
    .options = options,
    .run = run,
};
