/* Golden tests of passes: for each NAME.in.dlir of a folder, runs the passes that its first line
 * names
 * ("# passes: simplify,autodiff") and compares the text with NAME.out.dlir. After the names may
 * stand what the passes are told: --low=bf16 or --low=f16 (mixed precision), --low-products (the
 * target multiplies 16 bits), --written-out (it has no kernels that multiply f64), --ranks (two
 * share the samples), --batch-ranks (and their batch norms take all samples), --zero (and they
 * share the optimiser's state; this is the first). opt_run DIR            compare opt_run --update
 * DIR   write what came out: look at the difference before committing it */
#include <dirent.h>
#include <stdlib.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/text/text.h"
#include "ir/validate/validate.h"
#include "passes/pass.h"
#include "tests/check.h"

static const char in_suffix[] = ".in.dlir", heading[] = "# passes: ";

static int is_input(const struct dirent *e) {
    size_t n = strlen(e->d_name), s = sizeof in_suffix - 1;
    return n > s && strcmp(e->d_name + n - s, in_suffix) == 0;
}

/* The passes that the first line names; what stands after them goes to ctx. */
static const char *read_heading(const char *text, dl_pass_ctx *ctx) {
    if (strncmp(text, heading, sizeof heading - 1) != 0) return "";
    text += sizeof heading - 1;
    char *line = dl_strndup(ctx->arena, text, strcspn(text, "\n")), *rest = NULL;
    const char *passes = strtok_r(line, " ", &rest);
    for (const char *word; (word = strtok_r(NULL, " ", &rest));) {
        if (!strcmp(word, "--low=bf16"))
            ctx->step_options.low = DL_BF16;
        else if (!strcmp(word, "--low=f16"))
            ctx->step_options.low = DL_F16;
        else if (!strcmp(word, "--low-products"))
            ctx->half_gemms = 1u << DL_F16 | 1u << DL_BF16;
        else if (!strcmp(word, "--written-out"))
            ctx->expanded = 1u << DL_F64;
        else if (!strcmp(word, "--ranks"))
            ctx->parallel.dp = 2;
        else if (!strcmp(word, "--batch-ranks"))
            ctx->parallel.dp = ctx->parallel.batch_ranks = 2;
        else if (!strcmp(word, "--zero"))
            ctx->parallel.dp = 2, ctx->parallel.zero = true;
        else if (!strncmp(word, "--memory=", 9))
            ctx->memory = strtoll(word + 9, NULL, 10);
        else
            CHECK(false, "'%s' in the first line is no option", word);
    }
    return passes ? passes : "";
}

/* The text after the passes, or the error's, which has its place in golden files too. */
static char *transform(dl_arena *arena, const char *name, const char *text, size_t n) {
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = arena, .weights = {.kind = DL_PANEL, .width = 16}, .err = &err};
    const char *passes = read_heading(text, &ctx);
    dl_module *m = dl_read_module(arena, text, n, name, &err);
    if (!m || !dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}))
        return dl_format(arena, "error: %s\n", err.message);
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){0});
    char *out = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return out;
}

/* Points at the first line that differs. */
static void show_difference(const char *want, const char *got) {
    int line = 1;
    const char *w = want, *g = got;
    for (;;) {
        size_t nw = strcspn(w, "\n"), ng = strcspn(g, "\n");
        if (nw != ng || strncmp(w, g, nw) != 0) {
            printf("  line %d\n  want %.*s\n  got  %.*s\n", line, (int)nw, w, (int)ng, g);
            return;
        }
        if (!w[nw] || !g[ng]) return;
        w += nw + 1, g += ng + 1, line++;
    }
}

static void run_one(const char *dir, const char *file, bool update) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    int stem = (int)(strlen(file) - (sizeof in_suffix - 1));
    const char *in = dl_format(arena, "%s/%s", dir, file);
    const char *out = dl_format(arena, "%s/%.*s.out.dlir", dir, stem, file);
    size_t n;
    char *text = dl_read_file(arena, in, 1 << 20, &n, &err);
    CHECK(text, "%s", err.message);
    if (text) {
        char *got = transform(arena, file, text, n);
        if (update) {
            CHECK(dl_write_file(out, got, strlen(got), &err), "%s", err.message);
        } else {
            const char *want = dl_read_file(arena, out, 1 << 20, &n, &err);
            CHECK(want && strcmp(got, want) == 0, "%s: %s", file, want ? "differs" : err.message);
            if (want) show_difference(want, got);
        }
    }
    dl_arena_free(arena);
}

int main(int argc, char **argv) {
    bool update = argc > 2 && strcmp(argv[1], "--update") == 0;
    const char *dir = argc > 1 ? argv[argc - 1] : ".";
    struct dirent **entries;
    int n = scandir(dir, &entries, is_input, alphasort);
    CHECK(n > 0, "no golden files in %s", dir);
    for (int i = 0; i < n; i++) {
        run_one(dir, entries[i]->d_name, update);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return dl_test_end();
}
