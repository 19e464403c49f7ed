/* dldata: makes training data by simulation, and describes data files. */
#include "dldata/commands.h"
#include "ir/base/str.h"
#include "ir/base/streams.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *help;
    command *run;
} commands[] = {
    {"nbody", "simulate a piece of the universe for the 3-D U-Net (HDF5: Nbody, Hydro)",
     command_nbody},
    {"weather", "simulate a small atmosphere for weather models (HDF5: fields, a file a year)",
     command_weather},
    {"images", "draw labelled pictures (CIFAR-10's binary files, or JPEG class folders)",
     command_images},
    {"fields", "make pairs of random fields and what becomes of them (HDF5: x, t)", command_fields},
    {"inspect", "describe an HDF5, .npy, JPEG or CIFAR-10 data file and draw a slice of it as PNG",
     command_inspect},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void) {
    printf("dldata %s - makes training data by simulation, and describes data files\n\nusage: "
           "dldata COMMAND "
           "[OPTIONS]\n\n"
           "commands:\n",
           DL_VERSION);
    for (int i = 0; i < N_COMMANDS; i++) printf("  %-10s %s\n", commands[i].name, commands[i].help);
    printf("\nexamples:\n"
           "  dldata nbody -o data/nbody_train.h5              # what dlrun trains on\n"
           "  dldata nbody -o data/nbody_valid.h5 --seed 1     # and what it validates on\n"
           "  dldata weather -o data/weather                   # a few years of a small planet's "
           "weather\n"
           "  dldata images -o data/pictures                   # ten classes of drawn pictures\n"
           "  dldata fields -o data/fields_train.h5            # random fields, before and after\n"
           "  dldata inspect data/nbody_train.h5               # writes nbody_train.png\n\n"
           "`dldata COMMAND --help` lists a command's options; `dldata --version` prints the "
           "version.\n");
}

static bool run(int argc, char **argv, dl_error *err) {
    const char *names[N_COMMANDS], *word = argc > 1 ? argv[1] : NULL;
    if (!word)
        return dl_fail(err, DL_USAGE,
                       "which command? nbody, weather, images, fields or inspect; `dldata --help` "
                       "explains them");
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
        return print_help(), true;
    if (!strcmp(word, "--version")) return printf("dldata %s\n", DL_VERSION), true;
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(word, commands[i].name) != 0) continue;
        return commands[i].run(argc - 2, argv + 2, err);
    }
    const char *near = dl_nearest(word, names, N_COMMANDS);
    if (near)
        return dl_fail(err, DL_USAGE, "unknown command '%.60s'; did you mean `dldata %s`?", word,
                       near);
    return dl_fail(err, DL_USAGE, "unknown command '%.60s'; `dldata --help` lists the commands",
                   word);
}

int main(int argc, char **argv) {
    dl_exit_without_memory("dldata");
    dl_error err = {0};
    dl_streams_start();
    bool ok = run(argc, argv, &err);
    if (!ok) fprintf(stderr, "dldata: error: %s\n", err.message);
    return dl_streams_end("dldata", ok ? DL_OK : (int)err.code);
}
