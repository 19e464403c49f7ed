/* The host's one duty in a step: batches into the plan's input variables. */
#ifndef DLR_FEED_H
#define DLR_FEED_H
#include "runtime/data/prefetch.h"
#include "runtime/exec.h"

/* Whether a variable of a model is what the volume loaders give, f32[N, C, S, S, S] with S = data_size; then
 * its number of channels. Errors: DL_INPUT naming the variable and what it is. */
bool dlr_feed_channels(const char *name, const dl_type *type, int64_t data_size, int *channels,
                       dl_error *err);

/* A model of one input and one target. */
typedef struct {
    dlr_exec *exec;
    const dl_plan_var *input, *target;
    dlr_view input_view, target_view;
} dlr_feed;
/* Finds them. Errors: DL_INPUT for a model of more or fewer. */
bool dlr_feed_open(dlr_feed *feed, dlr_exec *exec, dl_error *err);
/* Copies a batch into the arena. */
void dlr_feed_batch(const dlr_feed *feed, const dlr_batch *batch);

/* The batches of a file, as `dlrun --replay` takes them: for each variable NAME of role input or target the
 * tensors NAME.0, NAME.1, ... */
typedef struct dlr_replay dlr_replay;
/* Checks names, shapes and types of all batches before the first is used. Errors: DL_IO, DL_INPUT (saying
 * which tensor is missing or wrong), DL_RESOURCE. */
dlr_replay *dlr_replay_open(const char *path, dlr_exec *exec, dl_error *err);
int64_t dlr_replay_batches(const dlr_replay *replay);
/* Copies batch `index` into the arena. */
bool dlr_replay_feed(dlr_replay *replay, int64_t index, dl_error *err);
void dlr_replay_close(dlr_replay *replay); /* NULL is fine */
#endif
