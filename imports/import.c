#include "imports/import.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "frontends/dl/format.h"
#include "imports/dl/write.h"
#include "imports/graph/weights.h"
#include "imports/onnx/onnx.h"
#include "imports/pt2/pt2.h"
#include "ir/base/file_calls.h"
#include "ir/base/foreign.h"
#include "ir/base/output.h"

static const dl_option options[] = {
    {"output", 'o', "MODEL.dl", "the model's text (without it: standard output)"},
    {"weights", 0, "FILE", "parameters and running statistics, by their own names (safetensors)"},
    {"loss", 0, "LOSS",
     "mse, l1, smooth_l1, huber, relative_l2, bce_with_logits or cross_entropy, with a target t"},
    {"sizes", 0, "NAME=N,...", "of an ONNX file: sizes other than the batch's that it leaves open"},
    {"report", 0, NULL,
     "which ops the language lacks, how often and where; of a folder: of all archives in it"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc import FILE.pt2|FILE.onnx -o MODEL.dl [OPTION...]\n\nWrites a model of PyTorch or "
    "ONNX as a model of this language. FILE.pt2 is what\n"
    "torch.export.save(torch.export.export(model.train(), (x,)), FILE) writes; FILE.onnx\nis of "
    "opset 13 or newer, from any exporter.\n\nAn op that the language lacks becomes fail(\"...\"): "
    "the model does not compile "
    "until you\nreplace it. The exit status is then 3. --report DIR tells what a folder of "
    "archives\n"
    "lacks, and writes nothing.\n\noptions:\n";

/* ---- files of either kind ---- */

typedef struct {
    dl_pt2 *pt2;
    dl_onnx_file *onnx;
    const dl_foreign_graph *graph; /* NULL: it could not be opened */
} archive;

static archive open_archive(dl_arena *arena, const char *path, const char *sizes, dl_error *err) {
    archive a = {0};
    if (dl_ends_with(path, ".onnx")) {
        if ((a.onnx = dl_onnx_open(arena, path, sizes, err))) a.graph = dl_onnx_graph(a.onnx);
    } else if (sizes)
        dl_fail(err, DL_USAGE, "--sizes is for ONNX files: %s is none by its name", path);
    else if ((a.pt2 = dl_pt2_open(arena, path, err)))
        a.graph = dl_pt2_graph(a.pt2);
    return a;
}

static void close_archive(archive *a) { dl_pt2_close(a->pt2), dl_onnx_close(a->onnx); }

/* ---- one file ---- */

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
        if (l->node) dl_console_text(call->out, ", node '%s'", dl_shown(call->arena, l->node));
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
    archive file = open_archive(call->arena, path, dl_config_option(c, "sizes"), err);
    const dl_foreign_graph *g = file.graph;
    if (!g) return false;
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
    close_archive(&file);
    return ok;
}

/* ---- a folder ---- */

/* An op that models of a folder lack. */
typedef struct {
    const char *op;
    int models, count;
} lack;
typedef DL_ARRAY(lack) lacks;

static void add_lacks(dl_arena *arena, lacks *all, const dl_import_report *r) {
    for (int i = 0; i < r->lacks.n; i++) {
        const dl_import_lack *l = &r->lacks.at[i];
        int k = 0;
        while (k < all->n && strcmp(all->at[k].op, l->op) != 0) k++;
        if (k == all->n) dl_push(arena, all, (lack){.op = dl_strdup(arena, l->op)});
        all->at[k].models++, all->at[k].count += l->count;
    }
}

static int by_models(const void *a, const void *b) {
    const lack *x = a, *y = b;
    int more = (y->models > x->models) - (y->models < x->models);
    return more ? more : strcmp(x->op, y->op);
}

static int is_archive(const struct dirent *entry) {
    return dl_ends_with(entry->d_name, ".pt2") || dl_ends_with(entry->d_name, ".onnx");
}

/* Reports the share of a folder's archives that the language covers. Writes nothing. */
static bool report_folder(dl_invocation *call, const char *path, dl_error *err) {
    struct dirent **list;
    int n = dl_scandir(path, &list, is_archive, alphasort), whole = 0, nodes = 0, lacking = 0;
    if (n < 0) return dl_fail_errno(err, DL_IO, "cannot read %s", path);
    lacks all = {0};
    for (int i = 0; i < n; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        const char *file = dl_format(arena, "%s/%s", path, list[i]->d_name);
        dl_import_options o = {.title = "Imported"};
        dl_import_report r = {0};
        dl_error fault = {0};
        dl_buf text = {0};
        const bool *kept;
        archive a = open_archive(arena, file, NULL, &fault);
        if (a.graph && dl_import_write(a.graph, &o, &text, &r, &kept, &fault)) {
            dl_console_text(call->out, "%s: %d of %d operations are in the language\n",
                            dl_shown(arena, list[i]->d_name), r.nodes - r.lacking, r.nodes);
            whole += !r.lacking, nodes += r.nodes, lacking += r.lacking;
            add_lacks(call->arena, &all, &r);
        } else {
            dl_console_error(call->out, &fault);
            lacking++, nodes++;
        }
        close_archive(&a);
        dl_buf_free(&text);
        dl_arena_free(arena);
        free(list[i]);
    }
    free(list);
    dl_console_text(call->out, "%d of %d models, %d of %d operations\n", whole, n, nodes - lacking,
                    nodes);
    if (all.n) qsort(all.at, (size_t)all.n, sizeof *all.at, by_models);
    for (int i = 0; i < all.n; i++)
        dl_console_text(call->out, "%6d models, %d times  %s\n", all.at[i].models, all.at[i].count,
                        dl_shown(call->arena, all.at[i].op));
    if (whole < n) call->status = DL_INPUT;
    return n > 0 || dl_fail(err, DL_INPUT, "%s: it has no files *.pt2 or *.onnx", path);
}

static bool run(dl_invocation *call, dl_error *err) {
    struct stat st;
    const char *path = call->config->positional.n ? call->config->positional.at[0] : NULL;
    if (path && dl_config_option(call->config, "report") && dl_stat(path, &st) == 0 &&
        S_ISDIR(st.st_mode))
        return report_folder(call, path, err);

    if (call->config->positional.n != 1)
        return dl_fail(err, DL_USAGE,
                       "dlc import FILE.pt2|FILE.onnx -o MODEL.dl (--help tells more)");
    return import_file(call, call->config->positional.at[0], err);
}

const dl_subcommand dl_subcommand_import = {.name = "import",
                                            .help = "a model of PyTorch or ONNX as a .dl file",
                                            .usage = usage,
                                            .options = options,
                                            .options_only = true,
                                            .most_files = 1,
                                            .run = run};
