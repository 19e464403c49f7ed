#include "exports/export.h"

#include "exports/c/c_export.h"
#include "exports/export_command.h"
#include "exports/onnx/onnx.h"
#include "exports/pytorch/pytorch.h"

static const dl_export_format *const formats[] = {
    &dl_export_c,
    &dl_export_onnx,
    &dl_export_pytorch,
    NULL,
};

static const dl_option options[] = {
    {"output", 'o', "OUT", "the file (onnx) or folder (c, pytorch) to make"},
    {"as", 0, "FORMAT", "c, onnx or pytorch"},
    {"target", 0, "TARGETS", "c: those of cpu:generic, cpu:avx2, cpu:avx512 that it is for (all)"},
    {"checkpoint", 0, "WHICH", "of a run: best (the default where there is one) or last"},
    DL_OPTION_HELP,
    {0},
};

static void put_usage(dl_buf *to) {
    dl_puts(to, "usage: dlc export RUN -o OUT --as=FORMAT [OPTION...] [--key=value...]\n\n"
                "Writes a trained network in a form that needs nothing of ours; "
                "docs/tutorial/use-the-network.md tells more.\n\n"
                "RUN is a run's directory, one of its checkpoints, or a file of weights (then with "
                "--model). The\nnetwork takes the numbers of the run's files, and gives numbers in "
                "the units of its targets.\n\nformats:\n");
    for (size_t i = 0; formats[i]; i++)
        dl_putf(to, "  %-8s  %s\n", formats[i]->name, formats[i]->help);
    dl_puts(to, "\n");
}

static const dl_export_format *find_format(const char *name, dl_error *err) {
    for (size_t i = 0; name && formats[i]; i++)
        if (strcmp(formats[i]->name, name) == 0) return formats[i];
    if (name)
        dl_fail(err, DL_USAGE, "--as=%.80s: c, onnx or pytorch", name);
    else
        dl_fail(err, DL_USAGE, "as what? --as=c, onnx or pytorch");
    return NULL;
}

/* Pictures are read and scaled by their loaders, whose work is no part of a network. */
static void warn_of_pictures(const dl_export *e) {
    const char *loader = e->net->data.loader;
    if (strcmp(loader, "cifar10") != 0 && strcmp(loader, "image_folder") != 0) return;
    dl_console_warning(e->console, "the network takes pictures as the loader gives them: scaled "
                                   "(image_scaling), channels first");
}

/* Takes a record that does something to floats of this type, else NULL. Errors: other channels. */
static bool take_record(const dl_array_record *r, const dl_type *t, bool replaces,
                        const dl_array_record **taken, dl_error *err) {
    bool does = r && dl_dtype_is_float(t->dtype) && (r->n_scales || (replaces && r->replaces_nan));
    *taken = does ? r : NULL;
    return !does || dl_record_fits(r, t, "its type", err);
}

/* Inputs and outputs, with what the run did to their data. */
static bool find_arrays(dl_export *e, dl_error *err) {
    const dl_graph *g = e->graph;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role != DL_VAR_INPUT) continue;
        if (e->n_inputs == DL_EXPORT_MOST)
            return dl_fail(err, DL_INPUT, "%s has more than %d inputs", e->name, DL_EXPORT_MOST);
        dl_export_input *in = &e->input[e->n_inputs++];
        in->var = v;
        if (!take_record(dl_data_record_find(&e->net->data, v->name), &v->value.type, true,
                         &in->record, err))
            return false;
    }
    if (g->results.n > DL_EXPORT_MOST)
        return dl_fail(err, DL_INPUT, "%s has more than %d outputs", e->name, DL_EXPORT_MOST);
    dl_record_output outputs[DL_EXPORT_MOST];
    const dl_array_record *targets[DL_EXPORT_MOST];
    for (int i = 0; i < g->results.n; i++) outputs[i] = dl_record_output_of(&g->results.at[i]);
    if (!dl_data_record_pair(&e->net->data, g->results.n, outputs, targets, err)) return false;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        dl_export_output *out = &e->output[e->n_outputs++];
        *out = (dl_export_output){r->name, r->value, NULL};
        if (!take_record(targets[i], &r->value->type, false, &out->undo, err)) return false;
    }
    return true;
}

static bool write_as(const dl_export_format *format, dl_export *e, const char *out, dl_error *err) {
    dlr_weights room;
    e->weights = dl_saved_model_tensors(e->net, &room, err);
    bool ok = e->weights && find_arrays(e, err);
    if (ok) warn_of_pictures(e);
    ok = ok && format->write(e, out, err);
    dlr_weights_close(&room);
    return ok;
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *given = call->config;
    const char *out = dl_config_option(given, "output");
    const dl_export_format *format = find_format(dl_config_option(given, "as"), err);
    if (!format) return false;
    if (given->positional.n != 1 || !out)
        return dl_fail(err, DL_USAGE, "dlc export RUN -o OUT --as=FORMAT (--help tells more)");
    dl_saved_model net = {0};
    dl_saved_model_options o = {.arena = call->arena,
                                .path = given->positional.at[0],
                                .which = dl_config_option(given, "checkpoint"),
                                .options = options,
                                .n_words = call->argc - 1,
                                .words = call->argv + 1,
                                .open_data = dl_data_record_open,
                                .console = call->out};
    bool ok = dl_saved_model_find(&net, &o, err) && dl_saved_model_open(&net, err) &&
              dl_session_predict(net.session, 0, NULL, err);
    if (ok) {
        dl_export e = {.arena = call->arena,
                       .console = call->out,
                       .name = net.session->model_name,
                       .net = &net,
                       .graph = net.session->module->graphs.at[0]};
        ok = write_as(format, &e, out, err);
    }
    dl_saved_model_close(&net);
    return ok;
}

const dl_subcommand dl_subcommand_export = {.name = "export",
                                            .help = "a trained network as C, ONNX or PyTorch",
                                            .put_usage = put_usage,
                                            .options = options,
                                            .takes_keys = true,
                                            .run = run};
