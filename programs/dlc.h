/* The commands of `dlc`: each is one function in a file of its own. */
#ifndef DLC_H
#define DLC_H
#include "compiler/session.h"
#include "ir/base/foreign.h"

/* A command's arguments without "dlc" (argv[0] is the command's name). Returns the exit code; prints its own
 * errors through dlc_fail. */
typedef int dlc_command(dl_arena *arena, int argc, char **argv);
dlc_command dlc_bench, dlc_check, dlc_compile, dlc_explain, dlc_opt, dlc_rehearse, dlc_scale, dlc_verify;

/* Prints "dlc: error: ..." (or the bare message where it is already located) and returns the code to exit
 * with. */
int dlc_fail(const dl_error *err);
/* --help of a command: its usage and own options; where it takes configuration keys (c: its command line,
 * else NULL) all of them, those of the model it names among them. The exit code. */
int dlc_help(const char *usage, const dl_option *options, dl_config *c);
/* Prints "dlc: warning: ..."; the `warn` of compile options. */
void dlc_warn(const char *text);
/* Opens the session that a command's arguments name: [MODEL.dl] and configuration keys. Where neither
 * --config nor a batch size is given, the batch is 1. Prints warnings and diagnostics. NULL: printed, *code
 * is the exit code. */
dl_session *dlc_session(dl_arena *arena, dl_config *config, int *code);
/* The same without a word when it succeeds: for who opens a session twice. */
dl_session *dlc_session_again(dl_arena *arena, dl_config *config, int *code);
/* The same for a number of ranks; 0: as --ranks says. The command line is read anew. */
dl_session *dlc_session_of(dl_arena *arena, int argc, char **argv, const dl_option *options, int ranks,
                           int *code);
/* Prints the model's warnings. */
void dlc_tell_warnings(const dl_session *session);
/* `dlc compile --memory=SIZE` (8GiB): prints the largest batch whose step fits, for each amp_mode; `options`
 * are those of the command whose arguments argv are. The exit code. */
int dlc_largest(const char *memory, int argc, char **argv, const dl_option *options, bool json);
#endif
