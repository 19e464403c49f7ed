/* Shared by the programs: how they start and end, list their commands, parse a command line and
 * print. Libraries do none of this. */
#ifndef CLI_H
#define CLI_H
#include "compiler/subcommand.h"

/* A program's first act: standard streams that are open, and an end with one sentence where memory
 * runs out. */
void cli_start(const char *program);
/* Its last act: the exit status, another one where standard output could not be written. */
int cli_end(const char *program, int status);

/* Text to standard output, warnings and diagnostics to standard error; `who` ("dlc", "dlrun sweep")
 * stands in front of errors, `who`'s first word in front of warnings. */
dl_console cli_console(const char *who);
/* Whether a message names its place, "file:line:column: error: ...". */
bool cli_is_located(const dl_error *err);
/* Prints "WHO: error: MESSAGE", or the message alone where it names its place. Returns the exit
 * status. */
int cli_fail(const char *who, const dl_error *err);

/* Prints the help of a command; with keys, those of the model that `config` names among them. */
bool cli_help(const dl_subcommand *command, dl_config *config, dl_error *err);
/* Runs one command with its words (argv[0]: its name). run_options: see dl_invocation. The exit
 * status. */
int cli_run(const char *who, const dl_subcommand *command, int argc, char **argv,
            const dl_option *run_options);

/* "dlrun 0.1.0", NVRTC's and NCCL's versions and files or that there is none, the driver's and its
 * devices, a line each. */
void cli_print_version(const char *program);
/* In addition: the commit, the compilers of this program and of kernels, libraries with the
 * versions of the build and the files that were loaded, the CPU and its features, the MPIs. */
void cli_print_verbose_version(void);
#endif
