/* Copies batches into the plan's input variables: the host's only work in a step. */
#ifndef DLR_FEED_H
#define DLR_FEED_H
#include "runtime/data/prefetch.h"
#include "runtime/exec/exec.h"

/* A plan's inputs, then its targets. Errors: those of dlr_arrays_add. */
bool dlr_feed_arrays(const dlr_exec *exec, dlr_arrays *arrays, dl_error *err);
/* The same for data that are exactly the plan's: f64 where it takes f64, and arrays without an axis
 * N, which are per_batch. */
bool dlr_feed_arrays_exactly(const dlr_exec *exec, dlr_arrays *arrays, dl_error *err);

/* The arrays of a data set, and the variable of each in the arena. */
typedef struct {
    dlr_exec *exec;
    int n;
    const dl_plan_var *var[DLR_MAX_ARRAYS];
    dlr_view view[DLR_MAX_ARRAYS];
    bool pinned; /* the device reads batches of numbers in place */
    int n_held;  /* device-resident data sets, and their places */
    struct {
        const dlr_arrays *of;
        int64_t at;
    } held[2];
} dlr_feed;
/* Finds the variables by name. Errors: DL_INPUT, naming an input of the plan that the data set
 * lacks. */
bool dlr_feed_open(dlr_feed *feed, dlr_exec *exec, const dlr_arrays *arrays, dl_error *err);
/* Whether the device can gather its inputs from that data set's numbers (dlr_dataset_raw), so that
 * the host only reads them; else `why` has the reason. */
bool dlr_feed_gathers(const dlr_feed *feed, const dlr_dataset *data, dl_error *why);
/* The prefetch options for that: the ring is pinned, where the system permits it (else the log says
 * so), so that batches are sent from where they were read. The feed outlives the ring. */
void dlr_feed_raw_options(dlr_feed *feed, dlr_prefetch_raw *raw);
/* Bytes of these data sets (NULL: none) on a device that holds all their numbers; 0 where one
 * cannot be device-resident. */
int64_t dlr_feed_store(const dlr_dataset *const data[2]);
/* Reads the numbers once and uploads them, where they fit in addition to the run (the log says so):
 * then the ring's batches may be `held`. Errors: DL_RESOURCE, with both sizes; DL_USAGE, where a
 * loader has no such numbers; and those of a number that cannot be read or is refused. After an
 * error nothing is held. */
bool dlr_feed_hold(dlr_feed *feed, const dlr_dataset *const data[2], dl_error *why);
/* Where the numbers of a batch's data set begin. */
int64_t dlr_feed_held_at(const dlr_feed *feed, const dlr_batch *batch);
/* Passes one array of a batch of such numbers to the device. */
void dlr_feed_numbers(const dlr_feed *feed, int array, const dlr_batch *batch);
/* Copies a batch of such arrays, or of their numbers, into the arena. */
void dlr_feed_batch(const dlr_feed *feed, const dlr_batch *batch);
/* The first array of a role (DL_VAR_INPUT, DL_VAR_TARGET), or -1. */
int dlr_feed_first(const dlr_feed *feed, dl_var_role role);
#endif
