#include "imports/import.h"

#include "frontends/dl/format.h"
#include "imports/dl/write.h"
#include "imports/graph/weights.h"
#include "imports/pt2/pt2.h"
#include "ir/base/foreign.h"
#include "ir/base/output.h"

static const dl_option options[] = {
    {"output", 'o', "MODEL.dl", "the model's text (without it: standard output)"},
    {"weights", 0, "FILE", "parameters and running statistics, by PyTorch's names (safetensors)"},
    {"loss", 0, "LOSS",
     "mse, l1, smooth_l1, huber, relative_l2, bce_with_logits or cross_entropy, with a target t"},
    {"report", 0, NULL, "which ops the language lacks, how often and where"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc import FILE.pt2 -o MODEL.dl [OPTION...]\n\nWrites a model of PyTorch as a model of "
    "this language. FILE is what\ntorch.export.save(torch.export.export(model.train(), (x,)), "
    "FILE) "
    "writes.\n\nAn op that the language lacks becomes fail(\"...\"): the model does not compile "
    "until you\nreplace it. The exit status is then 3.\n\noptions:\n";

/* The text in the formatter's form. The writer's text always parses. */
static bool format(dl_arena *arena, const dl_buf *text, dl_buf *out, dl_error *err) {
    dl_source *s = dl_source_new(arena, "imported.dl", text->at, text->n);
    dl_diags *diags = dl_diags_new(arena, s);
    if (dl_format_source(arena, s, out, diags)) return true;
    dl_buf faults = {0};
    dl_diags_print(&faults, diags, false);
    dl_fail(err, DL_INTERNAL, "the text that was written does not parse: %.700s", faults.at);
    dl_buf_free(&faults);
    return false;
}

static void put_report(const dl_invocation *call, const dl_import_report *r) {
    dl_console_text(call->out, "%d of %d operations are in the language\n", r->nodes - r->lacking,
                    r->nodes);
    for (int i = 0; i < r->lacks.n; i++) {
        const dl_import_lack *l = &r->lacks.at[i];
        dl_console_text(call->out, "%6d  %s", l->count, dl_shown(call->arena, l->op));
        if (l->module) dl_console_text(call->out, ", in %s", dl_shown(call->arena, l->module));
        if (l->line)
            dl_console_text(call->out, ", line %d of %s", l->line,
                            dl_shown(call->arena, l->function ? l->function : "?"));
        dl_console_text(call->out, "\n");
    }
}

static bool import_file(dl_invocation *call, const char *path, dl_error *err) {
    const dl_config *c = call->config;
    const char *out = dl_config_option(c, "output"), *weights = dl_config_option(c, "weights");
    dl_import_options o = {.loss = dl_config_option(c, "loss"), .title = "Imported"};
    if (o.loss && !dl_import_is_loss(o.loss))
        return dl_fail(err, DL_USAGE, "--loss=%.80s: --help lists the losses", o.loss);
    dl_pt2 *archive = dl_pt2_open(call->arena, path, err);
    if (!archive) return false;
    const dl_foreign_graph *g = dl_pt2_graph(archive);
    dl_import_report report = {0};
    dl_buf text = {0}, formatted = {0};
    const bool *kept = NULL;
    bool ok = dl_import_write(g, &o, &text, &report, &kept, err) &&
              format(call->arena, &text, &formatted, err);
    if (ok && out) ok = dl_write_file(out, formatted.at, formatted.n, err);
    if (ok && weights) ok = dl_import_weights(g, kept, weights, err);
    if (ok && !out && !dl_config_option(c, "report")) dl_console_puts(call->out, formatted.at);
    if (ok && dl_config_option(c, "report")) put_report(call, &report);
    if (ok && report.lacking) {
        dl_error lack = {0};
        dl_fail(&lack, DL_INPUT,
                "%s: %d of %d operations are not in the language, %s first; fail(...) stands in "
                "their place (--report lists them)",
                path, report.lacking, report.nodes, report.lacks.at[0].op);
        dl_console_error(call->out, &lack);
        call->status = DL_INPUT;
    }
    dl_buf_free(&text), dl_buf_free(&formatted);
    dl_pt2_close(archive);
    return ok;
}

static bool run(dl_invocation *call, dl_error *err) {
    if (call->config->positional.n != 1)
        return dl_fail(err, DL_USAGE, "dlc import FILE.pt2 -o MODEL.dl (--help tells more)");
    return import_file(call, call->config->positional.at[0], err);
}

const dl_subcommand dl_subcommand_import = {.name = "import",
                                            .help = "a model of PyTorch as a .dl file",
                                            .usage = usage,
                                            .options = options,
                                            .options_only = true,
                                            .most_files = 1,
                                            .run = run};
