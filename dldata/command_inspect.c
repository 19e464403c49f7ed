/* dldata inspect: the command line, and what is done with the sandbox's answer. */
#include "dldata/commands.h"
#include "dldata/describe.h"
#include "dldata/options.h"
#include "ir/base/foreign.h"
#include "ir/base/input.h"
#include "ir/base/output.h"

#include <stdio.h>
#include <string.h>

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

/* The file's name without directory and extension, ".png" behind it. */
static const char *default_picture(const char *path, char out[512]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    snprintf(out, 512, "%.*s.png", dot && dot != name ? (int)(dot - name) : (int)strlen(name), name);
    return out;
}

bool command_inspect(int argc, char **argv, dl_error *err) {
    long long slice = -1;
    const char *picture = NULL, *file = NULL;
    bool help = false;
    int n_files;
    const option options[] = {
        {"slice", NULL, OPTION_INTEGER, &slice, 0, 1e9, "K", "draw slice K of each channel (the middle one)"},
        {"output", "o", OPTION_TEXT, &picture, 0, 0, "PNG",
         "the picture's file (FILE's name with .png, in this directory)"},
        {"help", "h", OPTION_FLAG, &help, 0, 0, NULL, "this text"},
    };
    enum { N = sizeof options / sizeof options[0] };
    if (!options_read(options, N, argc, argv, &file, 1, &n_files, err)) return false;
    if (help) {
        printf("usage: dldata inspect FILE [OPTIONS]\n\n"
               "Describes an HDF5, .npy, JPEG or CIFAR-10 data file: arrays, shapes, types, storage, range, "
               "mean and "
               "standard deviation of\n"
               "each channel, attributes, and which loaders read it; draws a slice of each channel into a "
               "PNG file.\n\n");
        options_print(options, N);
        printf("\nexample:\n  dldata inspect data/nbody_train.h5 --slice 10 -o slice.png\n");
        return true;
    }
    if (!n_files)
        return dl_fail(err, DL_USAGE, "which file? for example `dldata inspect data/nbody_train.h5`");
    dl_input_remember(file);
    if (picture && !dl_output_check(picture, err)) return false;
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
        ok = dl_fail(err, DL_INPUT, "%s has no array to draw: nothing was written to %s", file, picture);
    dl_buf_free(&result.text);
    dl_buf_free(&result.bytes);
    return ok;
}
