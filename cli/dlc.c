/* `dlc`: the compiler's commands. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/environment.h"
#include "compiler/arguments.h"
#include "exports/export_command.h"
#include "imports/import.h"
#include "runtime/analyze/analyze.h"
#include "runtime/lsp/lsp.h"
#include "runtime/scaffold/scaffold.h"

#define COMMAND(name) &dl_subcommand_##name
static const dl_subcommand *const commands[] = {
    COMMAND(compile), COMMAND(bench),  COMMAND(simulate_ranks), COMMAND(estimate_scaling),
    COMMAND(verify),  COMMAND(check),  COMMAND(explain),        COMMAND(opt),
    COMMAND(cache),   COMMAND(export), COMMAND(import),         COMMAND(fmt),
    COMMAND(summary), COMMAND(graph),  COMMAND(list_models),    COMMAND(init),
    COMMAND(lsp)};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* `dlc --help MODEL.dl`: the model's keys. */
static int help_model(int argc, char **argv) {
    dl_buf b = {0};
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    dl_config *c = dl_config_open(arena, argc, argv, NULL, &err);
    bool ok = c && dl_arguments_of_model(arena, c, &err);
    if (ok) dl_config_put_arguments(&b, c), fputs(b.at, stdout);
    dl_buf_free(&b);
    dl_arena_free(arena);
    return ok ? DL_OK : cli_fail("dlc", &err);
}

static int print_usage(FILE *to, bool all) {
    fputs("dlc: the compiler of models for scientific deep learning\n\nusage: dlc COMMAND "
          "[ARGUMENT...]\n\ncommands:\n",
          to);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-16s  %s\n", commands[i]->name, commands[i]->help);
    if (all) fputs(ENVIRONMENT_HELP, to);
    fputs(
        "\n`dlc COMMAND --help` tells more, `dlc --help MODEL.dl` has the keys of a model, `dlc "
        "--help=all` the\nenvironment, and `dlc --version --verbose` commit, compilers, libraries, "
        "CPU and MPI. References:\ndocs/reference/language.md, docs/reference/configuration.md and "
        "docs/internals/ir.md.\n",
        to);
    return to == stdout ? DL_OK : DL_USAGE;
}

static int run(int argc, char **argv) {
    const char *names[N_COMMANDS], *word = argc > 1 ? argv[1] : NULL;
    if (!word) return print_usage(stderr, false);
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
        return argc > 2 ? help_model(argc - 1, argv + 1) : print_usage(stdout, false);
    if (!strcmp(word, "--help=all")) return print_usage(stdout, true);
    if (!strcmp(word, "--version")) {
        cli_print_version("dlc");
        if (argc > 2 && !strcmp(argv[2], "--verbose")) cli_print_verbose_version();
        return DL_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
        bool former = commands[i]->former_name && !strcmp(word, commands[i]->former_name);
        if (former)
            fprintf(stderr, "dlc: warning: `dlc %s` is now called `dlc %s`\n", word, names[i]);
        if (former || !strcmp(word, names[i]))
            return cli_run("dlc", commands[i], argc - 1, argv + 1, NULL);
    }
    const char *near = dl_nearest(word, names, N_COMMANDS);
    dl_error err = {0};
    dl_fail(&err, DL_USAGE, "no command '%.60s'; %s%s%s`dlc --help` lists them", word,
            near ? "did you mean '" : "", near ? near : "", near ? "'? " : "");
    return cli_fail("dlc", &err);
}

int main(int argc, char **argv) {
    cli_start("dlc");
    return cli_end("dlc", run(argc, argv));
}
