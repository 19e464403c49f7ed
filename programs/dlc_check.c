/* `dlc check` and `dlc explain`: the faults of model files, alone or with a configuration's data;
 * what a code means. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/check.h"
#include "programs/dlc.h"
#include "programs/samples.h"

static const dl_option options[] = {{"help", 'h', NULL, "this text"}, {0}};

static const char usage[] =
    "usage: dlc check FILE...\n"
    "       dlc check MODEL.dl --key=value...\n"
    "       dlc check MODEL.dl [--yaml_config FILE.yaml] --config NAME [--key=value...]\n\n"
    "Reports every fault of each model file (.dl) with its place, code and what would mend it, "
    "and\n"
    "what `dlc compile` would refuse, without making machine code.\n"
    "With keys, looks at the model at those sizes. With a configuration, holds its inputs and "
    "targets\n"
    "against the data files as well: names, shapes, channels, samples for training and "
    "validation.\n"
    "Exit status 3 when there is a fault. `dlc explain CODE` tells more about a code.\nSizes "
    "that a model leaves to its configuration are assumed where none is given.\n\n";

static void print(dl_buf *text) {
    if (text->n) fputs(text->at, stderr);
    dl_buf_free(text);
}

/* A model file by itself: 0, or the exit status. */
static int check_model(dl_arena *arena, const char *path, const dl_target *target) {
    dl_error err = {0};
    dl_source *source = dl_source_read(arena, path, &err);
    if (!source) return dlc_fail(&err);
    dl_diags *diags = dl_diags_new(arena, source);
    bool compiles = dl_check_file(arena, source, target, diags, &err);
    dl_buf b = {0};
    dl_diags_print(&b, diags, isatty(2) && !getenv("NO_COLOR"));
    print(&b);
    if (!compiles) return dlc_fail(&err);
    return diags->errors ? DL_INPUT : 0;
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

/* A model at the sizes of its configuration; with_data: and the data of it. */
static int check_configured(dl_arena *arena, dl_config *c, bool with_data) {
    dl_error err = {0};
    dl_buf faults = {0};
    if (!dl_config_take_model(c, &err)) return dlc_fail(&err);
    dl_session *s = dl_session_open(arena, c, 1, &faults, &err);
    print(s ? &s->diagnostics : &faults);
    if (!s) return dlc_fail(&err);
    int64_t train = 0, valid = 0;
    bool ok = compiles(arena, s, &err);
    if (ok && with_data)
        ok = dl_samples_settle(c, &err) && (train = count_samples(arena, s, DLR_TRAIN, &err)) > 0 &&
             (valid = count_samples(arena, s, DLR_VALID, &err)) > 0;
    const char *path = dl_shown(arena, s->model_path);
    dl_session_close(s);
    if (!ok) return dlc_fail(&err);
    if (with_data)
        printf("%s: ok; %lld samples for training, %lld for validation\n", path, (long long)train,
               (long long)valid);
    else
        printf("%s: ok\n", path);
    return 0;
}

/* Whether the command line has more than files: keys. */
static bool has_keys(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (argv[i][0] == '-' && argv[i][1]) return true;
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

int dlc_check(dl_arena *arena, int argc, char **argv) {
    dl_error err = {0};
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (!c) return dlc_fail(&err);
    if (dl_config_option(c, "help")) return dlc_help(usage, options, NULL);
    if (is_configured(c) || has_keys(argc, argv))
        return check_configured(arena, c, is_configured(c));
    const dl_target *target = dl_target_find(NULL, &err);
    if (!target) return dlc_fail(&err);
    if (!dl_config_finish(c, &err)) return dlc_fail(&err);
    if (!c->positional.n) {
        dl_fail(&err, DL_USAGE, "usage: dlc check FILE...");
        return dlc_fail(&err);
    }
    int code = 0;
    for (int i = 0; i < c->positional.n; i++) {
        int status = check_model(arena, c->positional.at[i], target);
        if (status)
            code = status;
        else
            printf("%s: ok\n", dl_shown(arena, c->positional.at[i]));
    }
    return code;
}

int dlc_explain(dl_arena *arena, int argc, char **argv) {
    if (argc != 2 || argv[1][0] == '-') {
        puts("usage: dlc explain CODE\n\nExplains a diagnostic, e.g. `dlc explain DL-E0231`.");
        return argc == 2 && !strcmp(argv[1], "--help") ? 0 : DL_USAGE;
    }
    dl_buf b = {0};
    if (!dl_diag_explain(&b, argv[1])) {
        fprintf(stderr, "dlc: error: no diagnostic '%s'; codes look like DL-E0201\n",
                dl_shown(arena, argv[1]));
        dl_buf_free(&b);
        return DL_USAGE;
    }
    fputs(b.at, stdout);
    dl_buf_free(&b);
    return 0;
}
