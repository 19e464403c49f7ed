/* The trials of a sweep, shared by any number of jobs without a server: trials.jsonl in the sweep's
 * directory. Each event is a line of JSON, appended under flock:
 *
 *     {"trial": 0, "event": "taken", "name": "lr1em4", "run": "base_00_lr1em4",
 *      "values": {"lr": 0.0001}, ...}
 *     {"trial": 0, "event": "returned", "status": 75}      interrupted, with a checkpoint
 *     {"trial": 0, "event": "done", "metric": 0.04, "best": 0.03, "best_epoch": 7, "epochs": 9}
 *     {"trial": 0, "event": "stopped", "metric": 0.4, ...}    ended early by the sweep's rule
 *     {"trial": 0, "event": "failed", "status": 7, "message": "..."}
 *     {"trial": 1, "event": "asked", "name": ...}          for a program that trains by itself
 *     {"trial": 2, "event": "returned", "name": ...}       values that a user added
 *
 * A trial trains in the folder `run` of the sweep's directory. The process that has locked this
 * folder holds the trial (rundir.h). The kernel releases the lock of a killed job; its trial, whose
 * last event is still "taken", can then be claimed again. A last line without a newline, left by a
 * killed writer, is removed by the next writer and does not count. */
#ifndef DLR_SWEEP_TRIALS_H
#define DLR_SWEEP_TRIALS_H
#include <stdint.h>

#include "frontends/yaml/sweep_file.h"
#include "runtime/train/rundir.h"

typedef enum {
    DLR_TRIAL_TAKEN,    /* claimed, and perhaps abandoned */
    DLR_TRIAL_RETURNED, /* to be continued */
    DLR_TRIAL_ASKED,    /* a program outside trains it and tells the result */
    DLR_TRIAL_DONE,
    DLR_TRIAL_STOPPED, /* early, by the sweep's rule */
    DLR_TRIAL_FAILED,  /* because of its values */
    DLR_N_TRIAL_STATES
} dlr_trial_state;

/* The metric's values in a run's metrics.jsonl. */
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
    bool held;        /* by a live process */
    const char *host; /* of the run that took it last, */
    int64_t pid;      /* and its process there */
    int taken;        /* how often */
    int lost;         /* how often in a row it was claimed and abandoned */
    int status;       /* of the last end: an exit status; 0: done, or none yet */
    const char *why;  /* its message, or NULL */
    dlr_trial_result result;
} dlr_trial;

typedef struct {
    const char *dir;
    DL_ARRAY(dlr_trial) list; /* by number */
} dlr_trials;

/* Whether it has ended with a result; whether it has ended. */
static inline bool dlr_trial_has_result(const dlr_trial *t) {
    return t->state == DLR_TRIAL_DONE || t->state == DLR_TRIAL_STOPPED;
}
static inline bool dlr_trial_is_over(const dlr_trial *t) {
    return dlr_trial_has_result(t) || t->state == DLR_TRIAL_FAILED;
}
/* The trial of a number, or NULL. */
dlr_trial *dlr_trials_find(const dlr_trials *all, int64_t number);

/* Reads all trials that were ever claimed, in their present state. Results of unfinished trials
 * come from their runs' files. metric: NULL for none; the best value is the largest where
 * `maximize`, otherwise the smallest. A sweep without trials gives an empty list. Errors: DL_IO
 * (also where the file system has no locks); DL_INPUT for a line that is not an event. */
bool dlr_trials_read(dl_arena *arena, const char *dir, const char *metric, bool maximize,
                     dlr_trials *all, dl_error *err);

/* Parses n bytes of the file; *end: the offset after the last complete line. Errors: DL_INPUT, with
 * `path:line:1: error:`. */
bool dlr_trials_parse(dl_arena *arena, const char *text, size_t n, const char *path,
                      dlr_trials *all, size_t *end, dl_error *err);
/* The number of trials that are over. */
int64_t dlr_trials_ended(const dlr_trials *all);

/* The trial with the best value; those that go on count, too, those that have failed do not. NULL:
 * none has one. */
const dlr_trial *dlr_trials_best(const dlr_trials *all, bool maximize);

/* Provides the values of trials that have not been claimed yet. */
typedef struct {
    int64_t trials; /* how many there are; -1: no end */
    /* Name and values of a trial, in the arena; `past` are those that were claimed. `given`: values
     * that it is to have, a JSON object; NULL: its own. */
    void (*make)(const void *of, dl_arena *arena, const dlr_trials *past, int64_t number,
                 const char *given, const char **name, const char **values);
    const void *of;
    const char *prefix; /* of folders, in front of the name */
} dlr_trial_maker;

enum { DLR_TRIAL_LOST = 3 };

/* Claims a trial that no process holds, and creates, locks and opens its folder in *run. In this
 * order: a trial that was returned or whose process died; a new one; one that was abandoned
 * DLR_TRIAL_LOST times or more, since its values may be the cause. trial->number is -1 where none
 * is left. A name that an earlier trial has gets the suffix "_t" and the number. look: returns the
 * number alone and claims nothing. Errors: as above. */
bool dlr_trials_take(dl_arena *arena, const char *dir, const dlr_trial_maker *maker, bool look,
                     dlr_trial *trial, dlr_rundir *run, dl_error *err);

/* Makes a new trial that no process holds: DLR_TRIAL_ASKED, for a program that trains it by itself,
 * or DLR_TRIAL_RETURNED, for the next agent. values: a JSON object; NULL: the sweep's own.
 * trial->number is -1 where none is left. Errors: as above. */
bool dlr_trials_add(dl_arena *arena, const char *dir, const dlr_trial_maker *maker,
                    dlr_trial_state state, const char *values, dlr_trial *trial, dl_error *err);

/* Records the end of a trial that this process holds, or that was asked for. status: its exit
 * status, 0 for done, or with `early` for stopped by the sweep's rule.
 * DL_USAGE, DL_INPUT and DL_NUMERIC are caused by its values: it has failed. DL_REQUEUE and all
 * others (files, memory, a lost rank) return it, until it was abandoned DLR_TRIAL_LOST times. why:
 * its message. *ended: the number of trials that are over, with this one. Errors:
 * DL_IO, DL_INPUT. */
bool dlr_trials_end(const char *dir, const dlr_trial *trial, int status, bool early,
                    const char *why, const dlr_trial_result *result, int64_t *ended, dl_error *err);

/* The values of a metric in a run's metrics.jsonl, one a point after the first step; with the
 * opposite sign where larger is better. A missing file has none. Errors: as above. */
bool dlr_trial_curve(dl_arena *arena, const char *metrics, const char *metric, bool maximize,
                     dl_sweep_curve *curve, dl_error *err);
/* Reads a metric's values from a run's metrics.jsonl. Errors: DL_IO, DL_INPUT. */
bool dlr_trial_measure(const char *metrics, const char *metric, bool maximize,
                       dlr_trial_result *result, dl_error *err);
#endif
