/* `dlc check` and `dlc explain`: the faults of model files, alone or with a configuration's data;
 * what a code means. */
#include <stdlib.h>
#include <unistd.h>

#include "compiler/check.h"
#include "frontends/yaml/data_file.h"
#include "ir/base/foreign.h"
#include "runtime/analyze/analyze.h"
#include "runtime/analyze/diagnostics_json.h"
#include "runtime/setup/dataset_options.h"

static const dl_option options[] = {
    {"json", 0, NULL, "print the faults as one JSON object"}, DL_OPTION_HELP, {0}};

static const char usage[] =
    "usage: dlc check FILE... [--json]\n"
    "       dlc check MODEL.dl --key=value... [--json]\n"
    "       dlc check MODEL.dl [--yaml_config FILE.yaml] --config NAME [--key=value...] "
    "[--json]\n\n"
    "Reports every fault of each model file (.dl) with its place, code and what would mend it, "
    "and\n"
    "what `dlc compile` would refuse, without making machine code.\n"
    "With keys, looks at the model at those sizes. With a configuration, holds its inputs and "
    "targets\n"
    "against the data files as well: names, shapes, channels, samples for training and "
    "validation.\n"
    "Exit status 3 when there is a fault. `dlc explain CODE` tells more about a code.\nSizes "
    "that a model leaves to its configuration are assumed where none is given.\n\n";

/* Where the faults of files go: text to the console, or objects of JSON into a buffer. */
typedef struct {
    bool json, located; /* the model's own diagnostics say what is wrong */
    dl_buf objects;
    int n;
} fault_list;

static void put_faults(const dl_invocation *call, fault_list *list, const dl_diags *diags) {
    dl_buf b = {0};
    if (list->json)
        dl_put_diagnostics_json(&list->objects, diags, &list->n);
    else
        dl_diags_print(&b, diags, isatty(2) && !getenv("NO_COLOR"));
    dl_console_diagnostics(call->out, b.at);
    dl_buf_free(&b);
}

/* A model file by itself. False with an error, or DL_INPUT where its diagnostics say all. */
static bool check_file(const dl_invocation *call, const char *path, const dl_target *target,
                       fault_list *list, dl_error *err) {
    dl_error absent = {0}; /* the error names the file as it was given */
    const char *found = *path ? dl_find_data_file(call->arena, path, &absent) : NULL;
    dl_source *source = dl_source_read(call->arena, found ? found : path, err);
    if (!source) return false;
    dl_diags *diags = dl_diags_new(call->arena, source);
    bool compiles = dl_check_file(call->arena, source, target, diags, err);
    put_faults(call, list, diags);
    return compiles && !diags->errors;
}

/* Samples in an epoch of a part; 0 with an error. */
static int64_t count_samples(dl_arena *arena, const dl_session *s, dlr_split split, dl_error *err) {
    dlr_dataset *d = dl_samples_open(arena, s, split, DLR_OPEN_PROBE, err);
    int64_t n = d ? dlr_dataset_samples(d) : 0;
    dlr_dataset_close(d);
    return n;
}

/* The model at the session's sizes, as far as machine code. */
static bool compiles(dl_arena *arena, dl_session *s, dl_error *err) {
    dl_compile_options opt;
    dl_compile_times times = {0};
    return dl_session_options(s, NULL, &opt, err) &&
           dl_compile(arena, s->module, &opt, &times, err);
}

/* A model at the sizes of its configuration; with_data: and the data of it. The text of a result
 * that is not JSON goes to the console. */
static bool check_session(const dl_invocation *call, bool with_data, fault_list *list,
                          dl_error *err) {
    dl_arena *arena = call->arena;
    const dl_diags *found = NULL;
    dl_session *s = dl_config_take_model(call->config, err)
                        ? dl_session_open_found(arena, call->config, 1, &found, err)
                        : NULL;
    if (found) put_faults(call, list, found), list->located = found->errors > 0;
    if (!s) return false;
    int64_t train = 0, valid = 0;
    bool ok = compiles(arena, s, err);
    if (ok && with_data)
        ok = dl_samples_resolve(call->config, err) &&
             (train = count_samples(arena, s, DLR_TRAIN, err)) > 0 &&
             (valid = count_samples(arena, s, DLR_VALID, err)) > 0;
    const char *path = dl_shown(arena, s->model_path);
    dl_session_close(s);
    if (ok && with_data && !list->json)
        dl_console_text(call->out, "%s: ok; %lld samples for training, %lld for validation\n", path,
                        (long long)train, (long long)valid);
    else if (ok && !list->json)
        dl_console_text(call->out, "%s: ok\n", path);
    return ok;
}

static void put_list(const dl_invocation *call, fault_list *list) {
    dl_console_text(call->out, "{\"diagnostics\": [%s]}\n", list->n ? list->objects.at : "");
    dl_buf_free(&list->objects);
}

/* With JSON the fault is in the list, and the status tells that there is one. */
static bool check_configured(dl_invocation *call, bool with_data, bool json, dl_error *err) {
    fault_list list = {.json = json};
    dl_error fault = {0};
    bool ok = check_session(call, with_data, &list, json ? &fault : err);
    if (!json) return ok;
    if (!ok && !list.located)
        dl_put_error_json(&list.objects, dl_config_str(call->config, DL_KEY_model), &fault,
                          &list.n);
    put_list(call, &list);
    if (!ok) call->status = (int)fault.code;
    return true;
}

/* Whether the command line has more than files: keys. */
static bool has_keys(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (argv[i][0] == '-' && argv[i][1] && strcmp(argv[i], "--json") != 0) return true;
    return false;
}

static bool is_configured(const dl_config *c) {
    bool yaml = dl_config_option(c, "config") || dl_config_option(c, "yaml_config");
    for (int i = 0; i < c->positional.n; i++) {
        const char *dot = strrchr(c->positional.at[i], '.');
        yaml = yaml || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
    }
    return yaml;
}

/* Each file, whatever the others are; the status is that of the last one with a fault. */
static bool check_files(dl_invocation *call, bool json, dl_error *err) {
    const dl_config *c = call->config;
    const dl_target *target = dl_target_find(NULL, NULL, err);
    if (!target || !dl_config_finish(call->config, err)) return false;
    if (!c->positional.n) return dl_fail(err, DL_USAGE, "usage: dlc check FILE...");
    fault_list list = {.json = json};
    for (int i = 0; i < c->positional.n; i++) {
        dl_error fault = {0};
        const char *path = c->positional.at[i];
        if (check_file(call, path, target, &list, &fault)) {
            if (!json) dl_console_text(call->out, "%s: ok\n", dl_shown(call->arena, path));
            continue;
        }
        call->status = fault.code ? (int)fault.code : DL_INPUT;
        if (fault.code && json)
            dl_put_error_json(&list.objects, path, &fault, &list.n);
        else if (fault.code)
            dl_console_error(call->out, &fault);
    }
    if (json) put_list(call, &list);
    return true;
}

static bool run(dl_invocation *call, dl_error *err) {
    bool configured = is_configured(call->config),
         json = dl_config_option(call->config, "json") != NULL;
    if (!configured && !has_keys(call->argc, call->argv)) return check_files(call, json, err);
    return check_configured(call, configured, json, err);
}

const dl_subcommand dl_subcommand_check = {
    .name = "check",
    .help = "check model files, all faults of each; with --config NAME their data, too",
    .usage = usage,
    .options = options,
    .run = run,
};

static const char explain_usage[] =
    "usage: dlc explain CODE\n\nExplains a diagnostic, e.g. `dlc explain DL-E0231`.\n";

static bool explain(dl_invocation *call, dl_error *err) {
    const char *code = call->argc == 2 ? call->argv[1] : "";
    if (call->argc != 2 || code[0] == '-') {
        dl_console_puts(call->out, explain_usage);
        bool asked = !strcmp(code, "--help") || !strcmp(code, "--help=all");
        if (!asked) call->status = DL_USAGE;
        return true;
    }
    dl_buf b = {0};
    bool known = dl_diag_explain(&b, code);
    if (known) dl_console_puts(call->out, b.at);
    dl_buf_free(&b);
    return known || dl_fail(err, DL_USAGE, "no diagnostic '%s'; codes look like DL-E0201",
                            dl_shown(call->arena, code));
}

const dl_subcommand dl_subcommand_explain = {
    .name = "explain",
    .help = "explain a diagnostic by its code",
    .usage = explain_usage,
    .parses_itself = true,
    .run = explain,
};
