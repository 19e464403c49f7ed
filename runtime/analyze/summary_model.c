/* `dlc summary` and `dlc graph`: the layers of a model as a table, and as a picture. */
#include "ir/base/foreign.h"
#include "ir/base/output.h"
#include "runtime/analyze/analyze.h"
#include "runtime/analyze/graph_picture.h"
#include "runtime/formats/json.h"

enum { MOST_DEPTH = 64 };

/* The session's layers, grouped as --depth asks. NULL: an error is set. */
static const dl_model_layers *find(const dl_invocation *call, dl_session *s, dl_error *err) {
    int64_t depth = 0;
    if (!dl_option_int(call->config, "depth", 1, MOST_DEPTH, &depth, err)) return NULL;
    const dl_model_layers *m = dl_find_model_layers(s, err);
    return m ? dl_group_model_layers(call->arena, m, (int)depth) : NULL;
}

/* ---- dlc summary ---- */

static const dl_option summary_options[] = {
    {"json", 0, NULL, "print the table as one JSON object"},
    {"depth", 0, "N", "one row for all layers whose names begin with the same N parts"},
    DL_OPTION_HELP,
    {0},
};

static const char summary_usage[] =
    "usage: dlc summary [MODEL.dl] [OPTION...] [--key=value...]\n\n"
    "Prints the layers of a model: name of the parameters, layer, shape of the result, "
    "parameters,\n"
    "MFLOP of a forward pass and MiB of the result. Rows without a name have no parameters. "
    "Without\n"
    "--config and batch size, the batch is 1.\n\n";

static double mflop_of(int64_t flops) { return (double)flops * 1e-6; }
static double mib_of(const dl_type *t) { return (double)dl_type_bytes(t) / 0x1p20; }

static double all_mib(const dl_model_layers *m) {
    double sum = 0;
    for (int i = 0; i < m->list.n; i++) sum += mib_of(&m->list.at[i].type);
    return sum;
}

static void put_json(dl_buf *b, const dl_session *s, const dl_model_layers *m) {
    dl_puts(b, "{\"model\": "), dlr_json_put_string(b, s->model_name);
    dl_puts(b, ", \"file\": "), dlr_json_put_string(b, s->model_path);
    dl_putf(b, ", \"batch\": %lld, \"parameters\": %lld, \"flops\": %lld, \"layers\": [",
            (long long)s->batch, (long long)m->parameters, (long long)m->flops);
    for (int i = 0; i < m->list.n; i++) {
        const dl_model_layer *l = &m->list.at[i];
        dl_puts(b, i ? ", {\"name\": " : "{\"name\": "), dlr_json_put_string(b, l->path);
        dl_puts(b, ", \"layer\": "), dlr_json_put_string(b, l->kind);
        dl_putf(b, ", \"line\": %d, \"dtype\": \"%s\", \"axes\": [", l->line,
                dl_dtype_name(l->type.dtype));
        for (int k = 0; k < l->type.rank; k++)
            dl_puts(b, k ? ", " : ""), dlr_json_put_string(b, l->type.axis[k].name);
        dl_puts(b, "], \"shape\": [");
        for (int k = 0; k < l->type.rank; k++)
            dl_putf(b, "%s%lld", k ? ", " : "", (long long)l->type.axis[k].size);
        dl_putf(b, "], \"parameters\": %lld, \"flops\": %lld, \"bytes\": %lld}",
                (long long)l->parameters, (long long)l->flops, (long long)dl_type_bytes(&l->type));
    }
    dl_puts(b, "]}\n");
}

static void put_table(dl_buf *b, const dl_session *s, const dl_model_layers *m, dl_arena *arena) {
    int name = 5, kind = 5, shape = 5;
    for (int i = 0; i < m->list.n; i++) {
        const dl_model_layer *l = &m->list.at[i];
        int n = (int)strlen(l->path), k = (int)strlen(l->kind),
            a = (int)strlen(dl_axes_text(arena, &l->type));
        name = n > name ? n : name, kind = k > kind ? k : kind, shape = a > shape ? a : shape;
    }
    dl_putf(b, "%s, batch %lld\n%-*s  %-*s  %-*s  %12s  %10s  %9s\n",
            dl_shown(arena, s->model_path), (long long)s->batch, name, "name", kind, "layer", shape,
            "shape", "parameters", "MFLOP", "MiB");
    for (int i = 0; i < m->list.n; i++) {
        const dl_model_layer *l = &m->list.at[i];
        dl_putf(b, "%-*s  %-*s  %-*s  %12lld  %10.2f  %9.3f\n", name, l->path, kind, l->kind, shape,
                dl_axes_text(arena, &l->type), (long long)l->parameters, mflop_of(l->flops),
                mib_of(&l->type));
    }
    dl_putf(b, "%-*s  %-*s  %-*s  %12lld  %10.2f  %9.3f\n", name, "total", kind, "", shape, "",
            (long long)m->parameters, mflop_of(m->flops), all_mib(m));
}

static bool summarize(dl_invocation *call, dl_error *err) {
    dl_session *s = dl_open_session(call, call->config, 1, err);
    if (!s) return false;
    dl_pass_on_warnings(call, s);
    const dl_model_layers *m = find(call, s, err);
    dl_buf b = {0};
    if (m && dl_config_option(call->config, "json"))
        put_json(&b, s, m);
    else if (m)
        put_table(&b, s, m, call->arena);
    dl_console_puts(call->out, b.at);
    dl_buf_free(&b);
    dl_session_close(s);
    return m != NULL;
}

const dl_subcommand dl_subcommand_summary = {
    .name = "summary",
    .help = "print the layers of a model: shapes, parameters, MFLOP, MiB",
    .usage = summary_usage,
    .options = summary_options,
    .takes_keys = true,
    .run = summarize,
};

/* ---- dlc graph ---- */

static const dl_option graph_options[] = {
    {"output", 'o', "FILE", "the picture to write (.svg)"},
    {"depth", 0, "N", "one box for all layers whose names begin with the same N parts"},
    DL_OPTION_HELP,
    {0},
};

static const char graph_usage[] =
    "usage: dlc graph [MODEL.dl] -o FILE.svg [OPTION...] [--key=value...]\n\n"
    "Draws a model: a box a layer, with the name of its parameters, and the axes of what goes "
    "from\n"
    "one to the next. A browser shows it.\n\n";

static bool draw(dl_invocation *call, dl_error *err) {
    const char *to = dl_config_option(call->config, "output");
    if (!to) return dl_fail(err, DL_USAGE, "usage: dlc graph MODEL.dl -o FILE.svg");
    if (!dl_output_check(to, err)) return false;
    dl_session *s = dl_open_session(call, call->config, 1, err);
    if (!s) return false;
    dl_pass_on_warnings(call, s);
    const dl_model_layers *m = find(call, s, err);
    dl_buf b = {0};
    if (m) dl_put_graph_picture(&b, call->arena, m, s->model_name);
    bool ok = m && dl_write_file(to, b.at, b.n, err);
    dl_buf_free(&b);
    dl_session_close(s);
    return ok;
}

const dl_subcommand dl_subcommand_graph = {
    .name = "graph",
    .help = "draw a model: its layers as boxes, the axes between them (.svg)",
    .usage = graph_usage,
    .options = graph_options,
    .takes_keys = true,
    .run = draw,
};
