/* `dlc fmt`: model files in one form. */
#include "frontends/dl/format.h"
#include "ir/base/foreign.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/analyze/analyze.h"

static const dl_option options[] = {
    {"check", 0, NULL, "change nothing; the exit status is 3 if a file has another form"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc fmt FILE.dl... [--check]\n\nBrings model files into one form: blanks, indentation "
    "and the breaks of long pipelines. Comments\nand words stay.\n\noptions:\n";

static bool format_file(dl_invocation *call, const char *path, dl_error *err) {
    size_t n; /* read as no input that must not be overwritten: it is what the command writes */
    const char *text = dl_read_file(call->arena, path, DL_SOURCE_LIMIT, &n, err);
    if (!text) return false;
    dl_source *s = dl_source_new(call->arena, path, text, n);
    dl_diags *diags = dl_diags_new(call->arena, s);
    dl_buf out = {0};
    bool check = dl_config_option(call->config, "check") != NULL;
    bool ok = dl_format_source(call->arena, s, &out, diags);
    if (!ok) {
        dl_buf faults = {0};
        dl_diags_print(&faults, diags, false);
        dl_console_diagnostics(call->out, faults.at);
        dl_buf_free(&faults);
        call->status = DL_INPUT;
        dl_buf_free(&out);
        return true;
    }
    if (out.n != s->n || memcmp(out.at, s->text, s->n) != 0) {
        if (check) {
            dl_console_text(call->out, "%s: dlc fmt would change it\n",
                            dl_shown(call->arena, path));
            call->status = DL_INPUT;
        } else
            ok = dl_write_file(path, out.at, out.n, err);
    }
    dl_buf_free(&out);
    return ok;
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    if (!c->positional.n) return dl_fail(err, DL_USAGE, "usage: dlc fmt FILE.dl... [--check]");
    for (int i = 0; i < c->positional.n; i++)
        if (!format_file(call, c->positional.at[i], err)) return false;
    return true;
}

const dl_subcommand dl_subcommand_fmt = {.name = "fmt",
                                         .help = "model files in one form",
                                         .usage = usage,
                                         .options = options,
                                         .options_only = true,
                                         .most_files = 1000,
                                         .run = run};
