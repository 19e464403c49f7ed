/* The trials of a sweep of hyperparameters, shared by any number of jobs without a server:
 * trials.jsonl in the sweep's directory, a line of JSON an event, only ever appended to, under
 * flock.
 *
 *     {"trial": 0, "event": "taken", "name": "lr1em4", "run": "base_00_lr1em4", "values": {"lr":
 * 0.0001},
 * ...}
 *     {"trial": 0, "event": "returned", "status": 75}      asked to stop, a checkpoint is written
 *     {"trial": 0, "event": "done", "metric": 0.04, "best": 0.03, "best_epoch": 7, "epochs": 9}
 *     {"trial": 0, "event": "failed", "status": 7, "message": "..."}
 *
 * A trial trains in the folder `run` of the sweep's directory, and is held by whoever has locked
 * that folder, as every run does (rundir.h): when a job is killed the kernel lets go of it, and the
 * trial, of which the file still says that it is taken, can be taken again. A line that a killed
 * writer left without an end is cut off by the next one: what it said has not happened. */
#ifndef DLR_SWEEP_TRIALS_H
#define DLR_SWEEP_TRIALS_H
#include <stdint.h>

#include "runtime/train/rundir.h"

typedef enum {
    DLR_TRIAL_TAKEN,    /* and held, or left by who was killed */
    DLR_TRIAL_RETURNED, /* to be gone on with */
    DLR_TRIAL_DONE,
    DLR_TRIAL_FAILED, /* its values cannot be trained with */
    DLR_N_TRIAL_STATES
} dlr_trial_state;

/* The result of a run, from its metrics.jsonl. */
typedef struct {
    bool any; /* the metric has a number at some point */
    double last, best;
    int64_t best_epoch, epochs; /* counted as the points are */
} dlr_trial_result;

typedef struct {
    int64_t number;
    const char *name;   /* of its values */
    const char *run;    /* its folder in the sweep's directory */
    const char *values; /* an object of JSON */
    dlr_trial_state state;
    bool held;        /* a run is at work there */
    const char *host; /* of the run that took it last, */
    int64_t pid;      /* and its process there */
    int taken;        /* how often */
    int lost;         /* how often in a row it was taken and then neither done nor returned */
    int status;       /* of the last end: an exit status; 0: done, or none yet */
    const char *why;  /* its message, or NULL */
    dlr_trial_result result;
} dlr_trial;

typedef struct {
    const char *dir;
    DL_ARRAY(dlr_trial) list; /* by number */
} dlr_trials;

/* All that were ever taken, as they are now: results of those that are not done from the files of
 * their runs. `metric` (NULL: none) with the best as the largest where `maximize`. Of a sweep
 * without trials none. Errors: DL_IO (no locks here, too); DL_INPUT for a line that is no event. */
bool dlr_trials_read(dl_arena *arena, const char *dir, const char *metric, bool maximize,
                     dlr_trials *all, dl_error *err);

/* Reads n bytes of the file; *end: after their last whole line. Errors: DL_INPUT, `path:line:1:
 * error:`. */
bool dlr_trials_parse(dl_arena *arena, const char *text, size_t n, const char *path,
                      dlr_trials *all, size_t *end, dl_error *err);
/* How many are done or have failed. */
int64_t dlr_trials_ended(const dlr_trials *all);

/* Values for trials that nobody has taken yet. */
typedef struct {
    int64_t trials; /* how many there are; -1: no end */
    /* Name and values of a trial, in the arena. */
    void (*make)(const void *of, dl_arena *arena, int64_t number, const char **name,
                 const char **values);
    const void *of;
    const char *prefix; /* of folders, in front of the name */
} dlr_trial_maker;

enum { DLR_TRIAL_LOST = 3 };

/* Takes a trial that nobody holds, with its folder made, locked and open in *run: one that was
 * returned, or whose holder is gone; else a new one; else one that was abandoned DLR_TRIAL_LOST
 * times and more, which may be its own fault. trial->number -1: none is left. A name that an
 * earlier trial has gets a suffix "_t" and the number. With `look` nothing is taken: only the
 * number is returned. Errors: as above. */
bool dlr_trials_take(dl_arena *arena, const char *dir, const dlr_trial_maker *maker, bool look,
                     dlr_trial *trial, dlr_rundir *run, dl_error *err);

/* Records how a trial that this process holds has ended: `status` is its exit status (0: done). Of
 * those that its values are to blame for (DL_USAGE, DL_INPUT, DL_NUMERIC) it has failed; DL_REQUEUE
 * hands it back, and so do others (files, memory, a rank), until it was lost DLR_TRIAL_LOST times.
 * `why`: its message. *ended: how many trials are done or have failed, this one counted. Errors:
 * DL_IO, DL_INPUT. */
bool dlr_trials_end(const char *dir, const dlr_trial *trial, int status, const char *why,
                    const dlr_trial_result *result, int64_t *ended, dl_error *err);

/* The result of a metric in a run's metrics.jsonl. Errors: DL_IO, DL_INPUT. */
bool dlr_trial_measure(const char *metrics, const char *metric, bool maximize,
                       dlr_trial_result *result, dl_error *err);
#endif
