/* The commands of `dlc`: each is one function in a file of its own. */
#ifndef DLC_H
#define DLC_H
#include "ir/base/foreign.h"
#include "programs/cli.h"

/* A command's arguments without "dlc" (argv[0] is the command's name). Returns the exit code;
 * prints its own errors through dlc_fail. */
typedef int dlc_command(dl_arena *arena, int argc, char **argv);
dlc_command dlc_bench, dlc_check, dlc_compile, dlc_explain, dlc_opt, dlc_rehearse, dlc_scale,
    dlc_verify;

/* `dlc compile --memory=SIZE` (8GiB): prints the largest batch whose step fits, for each amp_mode;
 * `options` are those of the command whose arguments argv are. The exit code. */
int dlc_largest(const char *memory, int argc, char **argv, const dl_option *options, bool json);
#endif
