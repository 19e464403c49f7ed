#include "compiler/check.h"

#include <stdio.h>

#include "compiler/arguments.h"
#include "compiler/compile.h"

/* Reports ops that no pass lowers. A layer that is elaborated many times is reported once, by
 * its source location. */
static void report_unlowered(const dl_source *source, const dl_graph *g, dl_diags *diags) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (n->body) report_unlowered(source, n->body, diags);
        if (dl_ops[n->op].class != DL_CLASS_HIGH) continue;
        dl_report(diags, dl_source_word(source, n->loc), DL_DIAG_not_compiled,
                  "'%s' is understood, but this version cannot compile it yet", dl_ops[n->op].name);
    }
}

/* Converts a later stage's "FILE:LINE:COLUMN: error: TEXT [CODE]" into a diagnostic of this
 * file. */
static bool report_refusal(const dl_source *source, const dl_error *err, dl_diags *diags) {
    size_t name = strlen(source->name);
    int line, column, text = 0;
    const char *code = strrchr(err->message, '[');
    if (strncmp(err->message, source->name, name) != 0 || !code ||
        sscanf(err->message + name, ":%d:%d: error: %n", &line, &column, &text) != 2 || !text)
        return false;
    for (int id = 0; id < DL_NDIAGS; id++) {
        size_t n = strlen(dl_diag_code((dl_diag_id)id));
        if (strncmp(code + 1, dl_diag_code((dl_diag_id)id), n) != 0 || code[1 + n] != ']') continue;
        const char *from = err->message + name + text;
        dl_report(diags, dl_source_word(source, (dl_loc){source->name, line, column}),
                  (dl_diag_id)id, "%.*s", (int)(code - from - 1), from);
        return true;
    }
    return false;
}

bool dl_check_file(dl_arena *arena, const dl_source *source, const dl_target *target,
                   dl_diags *diags, dl_error *err) {
    bool whole;
    const dl_model *model = dl_model_parse(arena, source, diags);
    if (!model) return true;
    dl_arguments_check(model, diags);
    dl_module *m = dl_model_check(arena, model, diags, &whole);
    if (!m) return true;
    dl_error refused = {0};
    dl_pass_ctx ctx = {.arena = arena, .err = &refused};
    dl_run_passes(m, "lower", &ctx, (dl_pass_options){0});
    for (int g = 0; g < m->graphs.n; g++) report_unlowered(source, m->graphs.at[g], diags);
    if (diags->errors || !whole) return true;
    dl_compile_options opt = {.target = target, .model = ""};
    dl_compile_times times = {0};
    if (dl_compile(arena, m, &opt, &times, &refused) || report_refusal(source, &refused, diags))
        return true;
    *err = refused;
    return false;
}
