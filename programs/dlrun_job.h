/* One run of dlrun, between the files that make it: dlrun.c leads, and main reads there in the
 * order of what happens. */
#ifndef DL_DLRUN_JOB_H
#define DL_DLRUN_JOB_H
#include "compiler/session.h"
#include "programs/classes.h"
#include "programs/device.h"
#include "programs/tracking.h"
#include "runtime/train/train.h"

typedef struct {
    dl_arena *arena;
    dl_config *config;
    int argc; /* the command line, without -n N */
    char *const *argv;
    const char *command_line;   /* all of it, words with blanks between them */
    struct dl_sweep_run *sweep; /* that it has a trial of (sweep.h), or NULL */
    dl_arena *compiler;         /* of the session, which is gone once there is a plan */
    dl_session *session;        /* NULL then */
    const char *model_path;
    int64_t batch, global_batch;
    dl_compile_times times;
    dlr_run_model model;
    dl_plan *plan;
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
static inline bool dl_job_leads(const dl_run_job *p) { return p->world.rank == 0; }

/* ---- dlrun_warnings.c ---- */

/* What is taken, but will hardly do what was meant. */
void dl_job_add_warnings(dl_run_job *p);
/* Tells all warnings, once: in the log if there is one, and else on standard error. */
void dl_job_tell_warnings(dl_run_job *p);

/* ---- dlrun_plan.c ---- */

/* The session's plan, from the cache or compiled; behind it the session is gone. Errors: those of
 * compiling; DL_PEER. */
bool dl_job_compile(dl_run_job *p, dl_error *err);
/* What --dry_run says of the plan: parameters, memory, kernels; as JSON where that is asked for. */
bool dl_job_print_plan(const dl_run_job *p, dl_error *err);
/* Opens the plan on its device, ready to run. */
bool dl_job_load_plan(dl_run_job *p, dl_error *err);

/* ---- dlrun_train.c ---- */

/* Trains, or replays, as the configuration says. Errors: those of runtime/train/train.h. */
bool dl_job_train(const dl_run_job *p, dl_error *err);
#endif
