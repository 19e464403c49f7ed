/* dldata inspect: the command line, and what is done with the sandbox's answer. */
#include "cli/dldata.h"
#include "dldata/describe.h"
#include "ir/base/foreign.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/setup/suggest_data.h"

#include <stdio.h>
#include <string.h>

static const dl_option options[] = {
    {"slice", 0, "K", "draw slice K of each channel (the middle one)"},
    {"output", 'o', "PNG", "the picture's file (FILE's name with .png, in this directory)"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dldata inspect FILE... [MODEL.dl] [OPTIONS]\n\n"
    "Describes data files of every format that is read (docs/reference/files.md), and JPEG and\n"
    "CIFAR-10: arrays, shapes, types, axes, units, storage, range, "
    "mean,\n"
    "standard deviation and NaN of each channel (of a large array: of blocks spread over "
    "it), "
    "attributes, "
    "and which\n"
    "loaders read it; draws a slice of each channel into a PNG file.\n"
    "With a model, proposes the section `data:` of its configuration (docs/guide/data.md).\n\n";

static const char after[] =
    "\nexamples:\n  dldata inspect data/nbody_train.h5 --slice 10 -o slice.png\n"
    "  dldata inspect mine.h5 models/mine.dl\n";

enum { MOST_FILES = 64 };

enum { OPEN_SECONDS = 5 }; /* of processor time; describe_file takes more for what it finds */

/* Names in a file are its author's: no control characters reach the terminal. */
static void print_safely(const dl_buf *text) {
    char piece[DL_PIECE];
    for (size_t i = 0; i < text->n;) {
        if (text->at[i] == '\n') {
            putchar(text->at[i++]);
            continue;
        }
        i += (size_t)dl_foreign_piece(DL_IN_LINE, text->at + i, text->n - i, piece);
        fputs(piece, stdout);
    }
}

/* The file's name without directory and extension, with ".png" after it. */
static const char *default_picture(const char *path, char out[512]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    snprintf(out, 512, "%.*s.png", dot && dot != name ? (int)(dot - name) : (int)strlen(name),
             name);
    return out;
}

/* One file: its description to standard output, its picture to `picture` (NULL: by the file's
 * name). */
static bool inspect(const char *file, long long slice, const char *picture, dl_error *err) {
    describe_request request = {file, slice};
    dl_sandbox_result result;
    char name[512];
    if (!dl_sandbox_run(file, OPEN_SECONDS, describe_file, &request, &result, err)) return false;
    print_safely(&result.text);
    bool ok = true;
    if (result.bytes.n > 0) {
        if (!picture) picture = default_picture(file, name);
        ok = dl_write_file(picture, result.bytes.at, result.bytes.n, err);
        dl_buf line = {0};
        dl_putf(&line, "picture: %s\n", picture);
        if (ok) print_safely(&line);
        dl_buf_free(&line);
    } else if (picture)
        ok = dl_fail(err, DL_INPUT, "%s has no array to draw: nothing was written to %s", file,
                     picture);
    dl_buf_free(&result.text);
    dl_buf_free(&result.bytes);
    return ok;
}

static bool suggest(const char *model, const char *const *files, int n_files, dl_error *err) {
    dl_buf text = {0};
    bool ok = dl_suggest_data(model, files, n_files, &text, err);
    if (ok) print_safely(&text);
    dl_buf_free(&text);
    return ok;
}

static bool is_model(const char *path) {
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".dl") == 0;
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    int64_t slice = -1;
    const char *picture = dl_config_option(c, "output"), *model = NULL;
    const char *const *files = c->positional.at;
    int n_files = c->positional.n;
    if (!(dl_option_int(c, "slice", 0, 1e9, &slice, err))) return false;
    if (n_files > 1 && is_model(files[n_files - 1])) model = files[--n_files];
    if (!n_files)
        return dl_fail(err, DL_USAGE,
                       "which file? for example `dldata inspect data/nbody_train.h5`");
    if (picture && n_files > 1) return dl_fail(err, DL_USAGE, "--output goes with one file");
    for (int i = 0; i < n_files; i++) dl_input_remember(files[i]);
    if (picture && !dl_output_check(picture, err)) return false;
    for (int i = 0; i < n_files; i++) {
        if (i) dl_console_text(call->out, "\n");
        if (!inspect(files[i], slice, picture, err)) return false;
    }
    return !model || suggest(model, files, n_files, err);
}

const dl_subcommand dldata_inspect = {
    .name = "inspect",
    .help = "describe a data file and draw a slice of it as PNG",
    .usage = usage,
    .options = options,
    .after = after,
    .options_only = true,
    .most_files = MOST_FILES,
    .run = run,
};
