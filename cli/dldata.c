/* dldata: makes training data by simulation, and describes data files. */
#include "cli/dldata.h"

#include <stdio.h>
#include <string.h>

static const dl_subcommand *const commands[] = {&dldata_nbody, &dldata_weather, &dldata_images,
                                                &dldata_fields, &dldata_inspect};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void) {
    printf("dldata %s - makes training data by simulation, and describes data files\n\nusage: "
           "dldata COMMAND "
           "[OPTIONS]\n\n"
           "commands:\n",
           DL_VERSION);
    for (int i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->help);
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

static int run(int argc, char **argv) {
    const char *names[N_COMMANDS], *word = argc > 1 ? argv[1] : "";
    dl_error err = {0};
    if (!strcmp(word, "--help") || !strcmp(word, "--help=all") || !strcmp(word, "-h") ||
        !strcmp(word, "help"))
        return print_help(), DL_OK;
    if (!strcmp(word, "--version")) {
        printf("dldata %s\n", DL_VERSION);
        if (argc > 2 && !strcmp(argv[2], "--verbose")) cli_print_verbose_version();
        return DL_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (!strcmp(word, names[i]))
            return cli_run("dldata", commands[i], argc - 1, argv + 1, NULL);
    }
    const char *near = *word ? dl_nearest(word, names, N_COMMANDS) : NULL;
    if (!*word)
        dl_fail(&err, DL_USAGE,
                "which command? nbody, weather, images, fields or inspect; `dldata --help` "
                "explains them");
    else if (near)
        dl_fail(&err, DL_USAGE, "unknown command '%.60s'; did you mean `dldata %s`?", word, near);
    else
        dl_fail(&err, DL_USAGE, "unknown command '%.60s'; `dldata --help` lists the commands",
                word);
    return cli_fail("dldata", &err);
}

int main(int argc, char **argv) {
    cli_start("dldata");
    return cli_end("dldata", run(argc, argv));
}
