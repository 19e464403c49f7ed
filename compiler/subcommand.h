/* A command of a program (`dlc bench`, `dlrun predict`) as a library offers it: its options and
 * help, and the function that does the work. A program under cli/ lists the commands that it has,
 * parses the command line, prints, and exits.
 *
 * A command prints nothing itself: its text goes to call->out, its error to `err`. */
#ifndef DL_SUBCOMMAND_H
#define DL_SUBCOMMAND_H
#include "compiler/session.h"
#include "ir/base/console.h"

typedef struct {
    dl_arena *arena;
    dl_config *config; /* the command line, parsed; NULL for a command that parses it itself */
    int argc;          /* its words, the command's name first */
    char **argv;
    const dl_option *options; /* that it was parsed with */
    const dl_console *out;
    const dl_option *run_options; /* of a run: for commands that start runs */
    bool batch_of_run;            /* no batch is assumed: the session's is a run's */
    int status;                   /* exit status of a command that returns true; DL_OK at first */
} dl_invocation;

typedef struct {
    const char *name, *help; /* a line of the program's own help */
    const char *former_name; /* still taken, with a warning; or NULL */
    const char *usage;       /* its help, before the options */
    const dl_option *options;
    void (*put_usage)(dl_buf *to); /* in the place of `usage`; NULL: that is all */
    bool takes_keys;               /* its help lists the configuration's keys, too */
    bool options_only;             /* it takes no keys, and at most `most_files` files */
    int most_files;
    const char *after;  /* examples: of a command with keys those of --help=all; may be NULL */
    bool parses_itself; /* call->argv, of which nothing is parsed before */
    bool (*run)(dl_invocation *call, dl_error *err);
} dl_subcommand;

/* Opens the session that a command's words name: [MODEL.dl] and configuration keys. Where neither
 * --config nor a batch size is given, the batch is 1, unless it is to be a run's. ranks: how many
 * share the work; 0: as the options `ranks` and `rank` say. Diagnostics of a model with faults go
 * to call->out. NULL: errors of dl_session_open; DL_USAGE. */
dl_session *dl_open_session(const dl_invocation *call, dl_config *config, int ranks, dl_error *err);
/* The same with the words parsed anew: for commands that open a model several times. */
dl_session *dl_reopen_session(const dl_invocation *call, int ranks, dl_error *err);
/* The same with these words in addition, which override the others. */
dl_session *dl_open_session_with(const dl_invocation *call, int n, const char *const *words,
                                 dl_error *err);
/* Passes on the warnings of configuration and model. */
void dl_pass_on_warnings(const dl_invocation *call, const dl_session *session);
#endif
