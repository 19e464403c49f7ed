/* Sweeps of hyperparameters (docs/reference/sweep-file.md): `dlrun sweep` makes one, or tells of
 * it; a run with
 * --sweep_id trains one of its trials, and `dlrun agent` one run after the other. A sweep is a
 * directory, EXPDIR/sweeps/ID: sweep.yaml as it was given, arguments.json, trials.jsonl
 * (runtime/sweep/sweep_trials.h), and a folder for each trial. */
#ifndef DLC_SWEEP_H
#define DLC_SWEEP_H
#include "compiler/subcommand.h"
#include "frontends/yaml/sweep_file.h"
#include "runtime/job/job.h"
#include "runtime/sweep/sweep_trials.h"

/* The sweep that a run has a trial of. */
typedef struct {
    const char *dir;
    const dl_sweep_file *file;
    dlr_trial trial; /* number -1: none was left */
} dl_sweep_run;

/* ---- sweep_base.c: a sweep and what its runs have in common ---- */

/* The directory of a sweep: `id` itself where it has a slash, else EXPDIR/sweeps/ID by the
 * configuration of that command line. NULL: errors of the configuration; DL_USAGE for an id that no
 * folder can have. */
const char *dl_sweep_dir(dl_arena *arena, const char *id, int argc, char *const *argv,
                         const dl_option *options, dl_error *err);
/* Whether runs of so many ranks with that command line can be the sweep's: the configuration
 * itself, every parameter in it, and the metric among what is recorded. *prefix: what names of
 * trials' folders begin with; may be NULL. Errors: DL_USAGE, DL_INPUT, at the place of the sweep's
 * file; DL_IO. */
bool dl_sweep_fits(dl_arena *arena, const dl_sweep_file *file, int ranks, int argc,
                   char *const *argv, const dl_option *options, const char **prefix,
                   const dl_console *out, dl_error *err);
/* The options of a command, and those of the runs that it is given for, which it is given, too. */
const dl_option *dl_sweep_options(dl_arena *arena, const dl_option *own, const dl_option *of_runs);
/* The help of a command: its text, its options and keys, as c's option --help asks. */
bool dl_sweep_print_help(const dl_console *out, const char *usage, const dl_option *own,
                         const dl_config *c, dl_error *err);
/* Takes an option out of the words of a command line: "--NAME VALUE" and "--NAME=VALUE", or, where
 * it has no value, "--NAME". */
void dl_sweep_drop(int *argc, char **argv, const char *name, bool has_value);
/* Makes new trials: names and values of the file, folders with `prefix`. */
dlr_trial_maker dl_sweep_maker(const dl_sweep_file *file, const char *prefix);
/* EXPDIR/sweeps/ID/sweep.yaml, read. NULL: DL_USAGE where there is no such sweep; as dl_sweep_read.
 */
const dl_sweep_file *dl_sweep_open(dl_arena *arena, const char *dir, dl_error *err);

/* ---- sweep_run.c: a run that is a trial ---- */

/* Takes a trial on rank 0, gives its values to the configuration of every rank, and opens its
 * folder; without one left s->trial.number is -1 on every rank. Between dl_job_join and dl_job_run.
 * Errors: as dl_sweep_fits, dlr_trials_take, dl_config_take_values; DL_PEER. */
bool dl_sweep_take(dl_sweep_run *s, dl_run_job *p, const char *id, const dl_option *options,
                   dl_error *err);
/* Rank 0 records how the trial ended, and prints the table when it was the last. False: it could
 * not, with an error. */
bool dl_sweep_end(const dl_sweep_run *s, dl_run_job *p, bool ok, const dl_error *how,
                  dl_error *err);

/* ---- sweep_table.c ---- */

/* A table of all trials that were taken, the best marked; or one JSON object. Errors: as
 * dlr_trials_read. */
bool dl_sweep_print(const dl_console *out, dl_arena *arena, const char *dir,
                    const dl_sweep_file *file, bool json, dl_error *err);

/* ---- sweep_create.c, sweep_agent.c: commands ---- */

extern const dl_subcommand dl_subcommand_sweep, dl_subcommand_agent;
/* arguments.json of a sweep: what its runs were given when it was made. Errors: DL_IO; DL_INPUT;
 * DL_USAGE where it is there, and says something else. */
bool dl_sweep_put_arguments(const char *dir, int ranks, int argc, char *const *argv, dl_error *err);
bool dl_sweep_arguments(dl_arena *arena, const char *dir, int *ranks, int *argc, char ***argv,
                        dl_error *err);
#endif
