/* `dlc init`: its options, and the files that it writes. */
#include <ctype.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/foreign.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/scaffold/scaffold.h"
#include "runtime/scaffold/scaffold_text.h"

static const dl_option options[] = {
    {"data", 0, "FILE",
     "the data: HDF5, NetCDF, .npy, .npz or Zarr, samples along the first axis; CSV or Parquet, "
     "a sample a row; a folder of pictures, train/CLASS/*.jpg and val/CLASS/*.jpg"},
    {"task", 0, "TASK",
     "regression, segmentation, classification, forecast or autoencoder (by the arrays)"},
    {"input", 0, "ARRAY", "the array that goes in (by names and shapes)"},
    {"target", 0, "ARRAY", "the array that shall come out (by names and shapes)"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc init NAME --data FILE [OPTION...]\n\n"
    "Begins a project for a data file: writes the model NAME.dl, its configuration NAME in\n"
    "config/NAME.yaml, and the next five commands in README-NAME.md. No file is replaced.\n\n";

static const char after[] = "\nexamples:\n"
                            "  dlc init heat --data maps.h5\n"
                            "  dlc init tomorrow --data weather.nc --task=forecast --input t2m\n";

/* A name of files, of a configuration and, its first letter raised, of a model. */
static bool check_name(const dl_config *c, dl_error *err) {
    if (!c->positional.n)
        return dl_fail(err, DL_USAGE, "which name? for example `dlc init mine --data FILE.h5`");
    const char *name = c->positional.at[0], *p = name;
    while (isalnum((unsigned char)*p) || (p > name && (*p == '_' || *p == '-'))) p++;
    return (!*p && isalpha((unsigned char)*name)) ||
           dl_fail(err, DL_USAGE,
                   "'%s' cannot name a model: letters, digits, _ and - can, and a "
                   "letter first",
                   name);
}

typedef struct {
    const char *path;
    void (*put)(dl_buf *b, const dl_scaffold_data *d, const char *name);
} written;

static bool write_all(dl_invocation *call, const dl_scaffold_data *d, const char *name,
                      dl_error *err) {
    const written files[] = {
        {dl_format(call->arena, "%s.dl", name), dl_scaffold_put_model},
        {dl_format(call->arena, "config/%s.yaml", name), dl_scaffold_put_configuration},
        {dl_format(call->arena, "README-%s.md", name), dl_scaffold_put_commands}};
    enum { N_FILES = sizeof files / sizeof *files };
    for (int i = 0; i < N_FILES; i++)
        if (!access(files[i].path, F_OK))
            return dl_fail(err, DL_IO, "%s exists: remove it, or take another name", files[i].path);
    if (!dl_make_dirs("config", 0777, err)) return false;
    for (int i = 0; i < N_FILES; i++) {
        dl_buf b = {0};
        files[i].put(&b, d, name);
        bool ok = dl_write_file(files[i].path, b.at, b.n, err);
        dl_buf_free(&b);
        if (!ok) return false;
    }
    dl_console_text(call->out, "%s: wrote %s, %s and %s, where the next five commands are\n",
                    dl_task_names[d->task], files[0].path, files[1].path, files[2].path);
    return true;
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    const char *path = dl_config_option(c, "data");
    if (!check_name(c, err)) return false;
    if (!path) return dl_fail(err, DL_USAGE, "which data? for example --data FILE.h5");
    dl_input_remember(path);
    dl_scaffold_data d;
    const char *task = dl_config_option(c, "task");
    if (dl_scaffold_is_pictures(call->arena, path))
        return dl_scaffold_find_pictures(call->arena, path, task, &d, err) &&
               write_all(call, &d, c->positional.at[0], err);
    dlr_array_file *f = dlr_array_file_open(path, err);
    bool ok = f &&
              dl_scaffold_find(call->arena, f, task, dl_config_option(c, "input"),
                               dl_config_option(c, "target"), &d, err) &&
              write_all(call, &d, c->positional.at[0], err);
    dlr_array_file_close(f);
    return ok;
}

const dl_subcommand dl_subcommand_init = {
    .name = "init",
    .help = "begin a project: a model, a configuration and the next commands for a data file",
    .usage = usage,
    .options = options,
    .after = after,
    .options_only = true,
    .most_files = 1,
    .run = run,
};
