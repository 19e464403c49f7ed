/* The part of `dlc` that its commands share: errors and warnings on standard error, --help, and the
 * session that a command line names. */
#ifndef DLC_CLI_H
#define DLC_CLI_H
#include "compiler/session.h"

/* Prints "dlc: error: ..." (or the bare message where it is already located) and returns the code
 * to exit with. */
int dlc_fail(const dl_error *err);
/* --help of a command: its usage and own options; where it takes configuration keys (c: its command
 * line, else NULL) all of them, those of the model it names among them. The exit code. */
int dlc_help(const char *usage, const dl_option *options, dl_config *c);
/* Prints "dlc: warning: ..."; the `warn` of compile options. */
void dlc_warn(const char *text);
/* Opens the session that a command's arguments name: [MODEL.dl] and configuration keys. Where
 * neither
 * --config nor a batch size is given, the batch is 1. Prints warnings and diagnostics. NULL:
 * printed, *code is the exit code. */
dl_session *dlc_session(dl_arena *arena, dl_config *config, int *code);
/* The same without a word when it succeeds: for who opens a session twice. */
dl_session *dlc_session_again(dl_arena *arena, dl_config *config, int *code);
/* The same for a number of ranks; 0: as --ranks says. The command line is read anew. */
dl_session *dlc_session_of(dl_arena *arena, int argc, char **argv, const dl_option *options,
                           int ranks, int *code);
/* Prints the model's warnings. */
void dlc_tell_warnings(const dl_session *session);
#endif
