/* One run of dlrun: a configuration and a model become a plan (compiler), the plan and the data a
 * training run (runtime/train).
 *
 *     dl_run_job job = {.arena = ..., .config = ..., .argc = ..., .argv = ..., .out = ...,
 *                       .dir.lock = -1};
 *     ok = dl_job_check_options(&job, &err) && dl_job_join(&job, lost, context, &err) &&
 *          dl_job_run(&job, &err);
 *     dl_job_close(&job);
 *
 * Between dl_job_join and dl_job_run a sweep may give the job a trial (runtime/sweep/sweep.h). */
#ifndef DL_DLRUN_JOB_H
#define DL_DLRUN_JOB_H
#include "compiler/session.h"
#include "ir/base/console.h"
#include "runtime/job/tracking.h"
#include "runtime/setup/classes.h"
#include "runtime/setup/device_choice.h"
#include "runtime/train/train.h"

typedef struct {
    dl_arena *arena;
    dl_config *config;
    int argc; /* the command line, without -n N */
    char *const *argv;
    const char *command_line; /* all of it, words with blanks between them */
    const dl_console *out;
    const dl_yaml *trial;        /* its values; NULL: the run is no trial */
    const char *trial_note;      /* of a trial of a sweep: a line of its log; else NULL */
    const dlr_stop_judge *judge; /* of a trial: ends it early; else NULL */
    const char *resume_command;  /* resumes it after a stop; NULL: the same command with --resume */
    dl_arena *compiler;          /* of the session, which is gone once there is a plan */
    dl_session *session;         /* NULL then */
    const char *model_path;
    int64_t batch, global_batch;
    dl_compile_times times;
    dlr_run_model model;
    const char *plan_file; /* dlrun FILE.dlp: the file (plan_file.h), and its plan; else NULL */
    dl_plan *given;
    dl_plan *plan;
    dl_plan *kept;      /* the same as a plan's file holds it, for keep_kernels; else NULL */
    dl_classes classes; /* of what is fed, as messages tell them */
    bool plan_cached;   /* it was found, not compiled */
    const char *tuned;  /* what tuning found, or NULL */
    dl_device_choice device;
    dlr_comm *comm; /* NULL: one rank */
    dlr_world world;
    dlr_group groups[DL_NRANK_GROUPS];
    int place[DL_NRANK_PARTS], data_ranks; /* this rank's coordinates; ranks with other samples */
    int64_t store; /* of a dry run: bytes of the data set that a device is to hold; 0: none, or not
                      there */
    dlr_rundir dir;
    dlr_wandb_options *wandb; /* NULL: not asked for */
    bool logs;                /* out.log is open */
    DL_ARRAY(const char *) warnings;
    dlr_dataset *train, *valid;
    dlr_exec *exec;
} dl_run_job;

static inline bool dl_job_replays(const dl_config *c) {
    return !dl_config_is_null(c, DL_KEY_replay);
}
/* Rank 0 speaks for all. */
static inline bool dl_job_is_rank0(const dl_run_job *p) { return p->world.rank == 0; }

/* ---- job.c ---- */

/* Options that do not go together. Errors: DL_USAGE. */
bool dl_job_check_options(const dl_run_job *p, dl_error *err);
/* Meets the other ranks: every rank's first act, so that one that is missing is missed here.
 * `lost` is called, on a thread of its own, when a rank is lost while this one does not wait for
 * it. Errors: those of dlr_comm_open. */
bool dl_job_join(dl_run_job *p, dlr_comm_lost_fn *lost, void *context, dl_error *err);
/* All the rest: trains, replays or, for --dry_run, prints what the plan needs. Errors: those of
 * configuration, model, data, device and training. */
bool dl_job_run(dl_run_job *p, dl_error *err);
/* Writes the error that ends the run to its log. */
void dl_job_log_error(dl_run_job *p, const dl_error *err);
/* Devices of ranks that end together, before the comm is closed. */
void dl_job_close_device(dl_run_job *p);
void dl_job_close_log(dl_run_job *p);
/* Closes all that is open, except the comm; frees the arena. */
void dl_job_close(dl_run_job *p);

/* ---- job_warnings.c ---- */

/* Warns of settings that will hardly do what was meant. */
void dl_job_add_warnings(dl_run_job *p);
/* Tells all warnings, once: in the log if there is one, and else on standard error. */
void dl_job_tell_warnings(dl_run_job *p);

/* ---- job_plan.c ---- */

/* The session's plan, from the cache or compiled; afterwards the session is gone. Errors: those of
 * compiling; DL_PEER. */
bool dl_job_compile(dl_run_job *p, dl_error *err);
/* The report of --dry_run: parameters, memory, kernels; as JSON where that is asked for. */
bool dl_job_print_plan(const dl_run_job *p, dl_error *err);
/* Opens the plan on its device, ready to run. */
bool dl_job_load_plan(dl_run_job *p, dl_error *err);

/* ---- job_train.c ---- */

/* Trains, or replays, as the configuration says. Errors: those of runtime/train/train.h. */
bool dl_job_train(const dl_run_job *p, dl_error *err);
#endif
