/* `dlc`: the compiler's commands. */
#include "programs/dlc.h"

#include <stdio.h>

#include "compiler/arguments.h"
#include "ir/base/streams.h"
#include "programs/environment.h"
#include "programs/version.h"

static const struct {
    const char *name, *help;
    dlc_command *run;
} commands[] = {
    {"compile", "compile a model: parameters, FLOPs, kernels, exact peak memory, predicted time",
     dlc_compile},
    {"bench", "time a training step on this machine beside its peak", dlc_bench},
    {"rehearse", "run all ranks of a job in this process, beside one that does all of it",
     dlc_rehearse},
    {"scale",
     "how long a step of many ranks takes, by kernels timed here and a network given or measured; "
     "what they "
     "read",
     dlc_scale},
    {"verify", "run every compiled kernel beside the interpreter", dlc_verify},
    {"check", "check model files, all faults of each; with --config NAME their data, too",
     dlc_check},
    {"explain", "explain a diagnostic by its code", dlc_explain},
    {"opt", "run passes on textual IR", dlc_opt},
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };

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
    return ok ? DL_OK : dlc_fail(&err);
}

static int usage(FILE *to) {
    fputs("dlc: the compiler of models for scientific deep learning\n\nusage: dlc COMMAND "
          "[ARGUMENT...]\n\ncommands:\n",
          to);
    for (int i = 0; i < NCOMMANDS; i++)
        fprintf(to, "  %-8s  %s\n", commands[i].name, commands[i].help);
    fputs(ENVIRONMENT_HELP
          "\n`dlc COMMAND --help` tells more, and `dlc --help MODEL.dl` the keys of a "
          "model; docs/language.md, docs/configuration.md and docs/ir.md are the "
          "references.\n",
          to);
    return to == stdout ? DL_OK : DL_USAGE;
}

static int run(int argc, char **argv) {
    if (argc < 2) return usage(stderr);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return argc > 2 ? help_model(argc - 1, argv + 1) : usage(stdout);
    if (!strcmp(argv[1], "--version")) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_version_print(arena, "dlc");
        dl_arena_free(arena);
        return DL_OK;
    }
    const char *names[NCOMMANDS];
    for (int i = 0; i < NCOMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(argv[1], names[i])) continue;
        dl_arena *arena = dl_arena_new(NULL);
        int code = commands[i].run(arena, argc - 1, argv + 1);
        dl_arena_free(arena);
        return code;
    }
    const char *near = dl_nearest(argv[1], names, NCOMMANDS);
    dl_error err = {0};
    dl_fail(&err, DL_USAGE, "no command '%s'%s%s%s", argv[1], near ? "; did you mean '" : "",
            near ? near : "", near ? "'?" : "");
    dlc_fail(&err);
    return usage(stderr);
}

int main(int argc, char **argv) {
    dl_exit_without_memory("dlc");
    dl_streams_start();
    return dl_streams_end("dlc", run(argc, argv));
}
