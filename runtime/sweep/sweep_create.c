/* `dlrun sweep`: makes a sweep of a file, or tells how one stands. */
#include "runtime/sweep/sweep.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/draw.h"
#include "ir/base/foreign.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/formats/json.h"
#include "runtime/launch/launch.h"

static const dl_option own_options[] = {
    {"sweep_id", 0, "ID",
     "the new sweep's name; of one that is there, with the same file: that one"},
    {"status", 0, "ID", "instead: a table of the trials of that sweep"},
    {"ask", 0, "ID", "instead: take a trial of that sweep for a program that trains it by itself"},
    {"tell", 0, "ID", "instead: the result of a trial that was asked for"},
    {"add", 0, "ID", "instead: a trial with the values of --values, which the next agent trains"},
    {"trial", 0, "N", "with --tell: the number that --ask gave"},
    {"metric", 0, "X", "with --tell: the metric"},
    {"failed", 0, NULL, "with --tell: it has none"},
    {"values", 0, "MAP", "with --add: '{\"lr\": 0.001}', each parameter of the sweep"},
    {"json", 0, NULL, "print one JSON object"},
    {"ranks", 'n', "N", "runs have N ranks"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlrun sweep FILE.yaml [--sweep_id ID] [-n N] [what its runs are given...]\n"
    "       dlrun sweep --status ID [--json]\n"
    "       dlrun sweep --ask ID | --tell ID --trial=N --metric=X | --add ID --values=MAP "
    "[--json]\n\n"
    "Makes a sweep of hyperparameters from a file as `wandb sweep` takes it, and says which runs\n"
    "train its trials; docs/guide/sweep.md tells more.\n\n"
    "  dlrun sweep sweep.yaml models/cnn_regressor.dl --config test2\n"
    "  dlrun agent sweeps/ID           trains one trial after the other; start as many as you "
    "like\n"
    "  dlrun models/cnn_regressor.dl --config test2 --sweep_id=ID      trains one, under srun, "
    "too\n"
    "  dlrun sweep --status sweeps/ID  values, states, results, and the best\n\n"
    "ID is a name, for EXPDIR/sweeps/ID, or that directory.\n\n"
    "Exit status: 0 done, 2 usage, 3 input, 4 files.\n\n";

/* ---- a new one ---- */

/* The directory, made. One of that name that is there must be of the same file. */
static bool make_dir(dl_arena *arena, const char *dir, const char *file, dl_error *err) {
    const char *path = dl_format(arena, "%s/sweep.yaml", dir);
    size_t n, m;
    const char *text = dl_read_file(arena, file, DL_YAML_MAX_BYTES, &n, err);
    if (!text || !dl_make_dirs(dir, 0777, err)) return false;
    if (access(path, F_OK) != 0) return dl_write_file(path, text, n, err);
    const char *there = dl_read_file(arena, path, DL_YAML_MAX_BYTES, &m, err);
    return there && ((n == m && memcmp(text, there, n) == 0) ||
                     dl_fail(err, DL_USAGE,
                             "%.300s is there, and is of another file than %.300s: give this "
                             "sweep another --sweep_id",
                             dir, file));
}

static void put_words(dl_buf *b, int argc, char *const *argv) {
    for (int i = 1; i < argc; i++) dl_puts(b, " "), dl_put_shell_word(b, argv[i]);
}

static void tell_made(const dl_console *out, const dl_sweep_file *f, const char *dir, int ranks,
                      int argc, char *const *argv) {
    dl_buf b = {0};
    for (int i = 0; i < f->warnings.n; i++) dl_console_warning(out, f->warnings.at[i]);
    dl_putf(&b, "sweep %s: %s", dir, f->method->name);
    if (f->trials >= 0)
        dl_putf(&b, ", %lld trials of", (long long)f->trials);
    else
        dl_puts(&b, ", trials without end (run_cap ends them) of");
    for (int i = 0; i < f->n; i++) dl_putf(&b, "%s %s", i ? "," : "", f->parameters[i].name);
    dl_putf(
        &b,
        "\n  trials, one after the other:   dlrun agent %s\n  one trial:                     dlrun",
        dir);
    if (ranks > 1) dl_putf(&b, " -n %d", ranks);
    put_words(&b, argc, argv);
    dl_putf(&b, " --sweep_id=%s\n  how it stands:                 dlrun sweep --status %s\n", dir,
            dir);
    dl_console_puts(out, b.at);
    dl_buf_free(&b);
}

static void tell_made_json(const dl_console *out, const dl_sweep_file *f, const char *id,
                           const char *dir) {
    dl_buf b = {0};
    dl_puts(&b, "{");
    dlr_json_put_key(&b, "id");
    dlr_json_put_string(&b, id);
    dlr_json_put_key(&b, "sweep");
    dlr_json_put_string(&b, dir);
    dlr_json_put_key(&b, "trials");
    if (f->trials >= 0)
        dl_putf(&b, "%lld", (long long)f->trials);
    else
        dl_puts(&b, "null");
    dl_puts(&b, "}\n");
    dl_console_puts(out, b.at);
    dl_buf_free(&b);
}

static bool make(const dl_console *out, dl_arena *arena, const char *path, int ranks, int argc,
                 char **argv, const dl_option *options, dl_error *err) {
    dl_config *c = dl_config_open(arena, argc, argv, options, err);
    const char *given = c ? dl_config_option(c, "sweep_id") : NULL, *id = given;
    bool json = c && dl_config_option(c, "json");
    const dl_sweep_file *f = c ? dl_sweep_read(arena, path, err) : NULL;
    if (!f) return false;
    dl_sweep_drop(&argc, argv, "sweep_id", true); /* the rest is what its runs are given */
    dl_sweep_drop(&argc, argv, "json", false);
    if (ranks < 1) ranks = 1;
    if (!dl_sweep_fits(arena, f, ranks, argc, argv, options, NULL, out, err)) return false;
    if (!id) id = dl_draw_name(arena);
    const char *dir = dl_sweep_dir(arena, id, argc, argv, options, err);
    if (!dir || !make_dir(arena, dir, path, err) ||
        !dl_sweep_put_arguments(dir, ranks, argc, argv, err))
        return false;
    if (json)
        tell_made_json(out, f, id, dir);
    else
        tell_made(out, f, dir, ranks, argc, argv);
    return true;
}

/* ---- one that is there ---- */

static bool status(const dl_sweep_access *s, const dl_config *c, dl_error *err) {
    (void)c;
    return dl_sweep_print(s->out, s->arena, s->dir, s->file, s->json, err);
}

static bool ask(const dl_sweep_access *s, const dl_config *c, dl_error *err) {
    (void)c;
    return dl_sweep_ask(s, err);
}

static bool tell(const dl_sweep_access *s, const dl_config *c, dl_error *err) {
    int64_t number = 0;
    double metric = 0;
    bool failed = dl_config_option(c, "failed") != NULL;
    if (!dl_config_option(c, "trial") || failed == (dl_config_option(c, "metric") != NULL))
        return dl_fail(err, DL_USAGE, "--tell needs --trial=N, and --metric=X or --failed");
    return dl_option_int(c, "trial", 0, INT64_MAX, &number, err) &&
           dl_option_real(c, "metric", -DBL_MAX, DBL_MAX, &metric, err) &&
           dl_sweep_tell(s, number, failed ? NULL : &metric, err);
}

static bool add(const dl_sweep_access *s, const dl_config *c, dl_error *err) {
    const char *values = dl_config_option(c, "values");
    return values ? dl_sweep_add(s, values, err)
                  : dl_fail(err, DL_USAGE, "--add needs --values='{\"lr\": 0.001}'");
}

/* Actions on a sweep that is there, by the option that names it. */
static const struct {
    const char *option;
    bool (*run)(const dl_sweep_access *s, const dl_config *c, dl_error *err);
} actions[] = {{"status", status}, {"ask", ask}, {"tell", tell}, {"add", add}};
enum { N_ACTIONS = sizeof actions / sizeof *actions };

/* The first of them that the command line has; -1: none. */
static int find_action(const dl_config *c) {
    for (int i = 0; i < N_ACTIONS; i++)
        if (dl_config_option(c, actions[i].option)) return i;
    return -1;
}

static bool act(int action, const dl_invocation *call, const dl_config *c, const dl_option *options,
                int argc, char **argv, dl_error *err) {
    dl_sweep_access s = {.arena = call->arena,
                         .options = options,
                         .out = call->out,
                         .json = dl_config_option(c, "json") != NULL};
    const char *id = dl_config_option(c, actions[action].option);
    s.dir = dl_sweep_dir(s.arena, id, argc, argv, options, err);
    s.file = s.dir ? dl_sweep_open(s.arena, s.dir, err) : NULL;
    return s.file && actions[action].run(&s, c, err);
}

/* ---- all ---- */

static bool run(dl_invocation *call, dl_error *err) {
    dl_arena *arena = call->arena;
    int argc = call->argc;
    char **argv = call->argv;
    const dl_option *options = dl_sweep_options(arena, own_options, call->run_options);
    int ranks = dl_launch_take(&argc, argv, err);
    if (ranks < 0) return false;
    const char *path = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    if (path) argv[1] = argv[0], argc--, argv++;
    dl_config *c = dl_config_open(arena, argc, argv, options, err);
    if (!c) return false;
    if (dl_config_option(c, "help"))
        return dl_sweep_print_help(call->out, usage, own_options, c, err);
    int action = find_action(c);
    if (path && action >= 0)
        return dl_fail(err, DL_USAGE, "--%s is about a sweep that is there, and takes no file",
                       actions[action].option);
    const bool model = path && dl_ends_with(path, ".dl");
    if (path && !model) return make(call->out, arena, path, ranks, argc, argv, options, err);
    return action >= 0 ? act(action, call, c, options, argc, argv, err)
                       : dl_fail(err, DL_USAGE,
                                 "the sweep's file comes first: dlrun sweep FILE.yaml (or "
                                 "--status ID; --help tells more)");
}

const dl_subcommand dl_subcommand_sweep = {.name = "sweep",
                                           .help = "make a sweep of many values, or show one",
                                           .usage = usage,
                                           .options = own_options,
                                           .parses_itself = true,
                                           .run = run};
