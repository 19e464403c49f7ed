/* Sweeps of hyperparameters (docs/reference/sweep-file.md). `dlrun sweep` creates one or prints its
 * table; a run with --sweep_id trains one trial; `dlrun agent` runs trials one after another. A
 * sweep is a directory, EXPDIR/sweeps/ID, with sweep.yaml (a copy of the user's file),
 * arguments.json, trials.jsonl (sweep_trials.h), and a folder for each trial. */
#ifndef DLC_SWEEP_H
#define DLC_SWEEP_H
#include "compiler/subcommand.h"
#include "frontends/yaml/sweep_file.h"
#include "runtime/job/job.h"
#include "runtime/sweep/sweep_trials.h"

/* The trial that a run trains, and its sweep. */
typedef struct {
    const char *dir;
    const dl_sweep_file *file;
    dlr_trial trial; /* number -1: none was left */
    dlr_stop_judge judge;
    bool stopped; /* by the sweep's rule */
} dl_sweep_run;

/* ---- sweep_base.c: a sweep and what its runs have in common ---- */

/* The directory of a sweep: `id` itself where it contains a slash, otherwise EXPDIR/sweeps/ID with
 * the configuration of that command line. NULL: errors of the configuration; DL_USAGE for an id
 * that cannot be a folder's name. */
const char *dl_sweep_dir(dl_arena *arena, const char *id, int argc, char *const *argv,
                         const dl_option *options, dl_error *err);
/* Checks that runs with so many ranks and that command line can be trials of the sweep: the
 * configuration is valid, each parameter is one of its keys, and the metric is recorded. *prefix,
 * unless NULL: the first part of the names of trials' folders. Errors: DL_USAGE, DL_INPUT, with the
 * place in the sweep's file; DL_IO. */
bool dl_sweep_fits(dl_arena *arena, const dl_sweep_file *file, int ranks, int argc,
                   char *const *argv, const dl_option *options, const char **prefix,
                   const dl_console *out, dl_error *err);
/* The options of a command that starts runs: its own, followed by those of the runs, which it
 * forwards. */
const dl_option *dl_sweep_options(dl_arena *arena, const dl_option *own, const dl_option *of_runs);
/* Prints the help of a command: its usage, its options, and keys as c's option --help selects them.
 */
bool dl_sweep_print_help(const dl_console *out, const char *usage, const dl_option *own,
                         const dl_config *c, dl_error *err);
/* Removes an option from a command line: "--NAME VALUE" and "--NAME=VALUE", or "--NAME" where it
 * has no value. */
void dl_sweep_drop(int *argc, char **argv, const char *name, bool has_value);
/* Provides the names and values of new trials by the sweep's file; folders begin with `prefix`. */
dlr_trial_maker dl_sweep_maker(const dl_sweep_file *file, const char *prefix);
/* Reads DIR/sweep.yaml. NULL: DL_USAGE where there is no such sweep; errors of dl_sweep_read. */
const dl_sweep_file *dl_sweep_open(dl_arena *arena, const char *dir, dl_error *err);

/* ---- sweep_run.c: a run that is a trial ---- */

/* Claims a trial on rank 0, sets its values in the configuration of every rank, and opens its
 * folder. s->trial.number is -1 on every rank where no trial is left. Call it between dl_job_join
 * and dl_job_run. Errors: those of dl_sweep_fits, dlr_trials_take and dl_config_take_values;
 * DL_PEER. */
bool dl_sweep_take(dl_sweep_run *s, dl_run_job *p, const char *id, const dl_option *options,
                   dl_error *err);
/* Rank 0 records how the trial ended; after the last trial it prints the table. False: with an
 * error. */
bool dl_sweep_end(const dl_sweep_run *s, dl_run_job *p, bool ok, const dl_error *how,
                  dl_error *err);

/* ---- sweep_table.c ---- */

/* The state of a trial in a word: "done". */
const char *dl_sweep_state(const dlr_trial *t);
/* Prints the trials that were claimed so far, as a table with the best one marked, or as one JSON
 * object. Errors: those of dlr_trials_read. */
bool dl_sweep_print(const dl_console *out, dl_arena *arena, const char *dir,
                    const dl_sweep_file *file, bool json, dl_error *err);

/* ---- sweep_ask.c: trials for programs that train or choose by themselves ---- */

/* Where and what: the sweep's directory and file, the options of its runs, where to print. */
typedef struct {
    dl_arena *arena;
    const char *dir;
    const dl_sweep_file *file;
    const dl_option *options;
    const dl_console *out;
    bool json;
} dl_sweep_access;

/* Takes a new trial for the program that asks, and prints its number and values. Errors: those of
 * dl_sweep_fits and dlr_trials_add. */
bool dl_sweep_ask(const dl_sweep_access *s, dl_error *err);
/* Adds a trial with these values, a map for each parameter of the sweep, for the next agent.
 * Errors: as above; DL_USAGE for values that the configuration refuses. */
bool dl_sweep_add(const dl_sweep_access *s, const char *values, dl_error *err);
/* Records the result of a trial that was asked for; metric NULL: it failed. Errors: DL_USAGE where
 * it was not asked for; DL_IO, DL_INPUT. */
bool dl_sweep_tell(const dl_sweep_access *s, int64_t number, const double *metric, dl_error *err);

/* ---- sweep_create.c, sweep_agent.c: commands ---- */

extern const dl_subcommand dl_subcommand_sweep, dl_subcommand_agent;
/* Writes and reads arguments.json: the number of ranks and the arguments with which the sweep was
 * created. Errors: DL_IO; DL_INPUT; DL_USAGE where the file exists with other contents. */
bool dl_sweep_put_arguments(const char *dir, int ranks, int argc, char *const *argv, dl_error *err);
bool dl_sweep_arguments(dl_arena *arena, const char *dir, int *ranks, int *argc, char ***argv,
                        dl_error *err);
#endif
