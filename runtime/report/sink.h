/* The outputs of a run's points, pictures and settings: one table of functions a format, so that
 * the loop knows a list of them and no format. Ranks other than the first have an empty list. */
#ifndef DLR_SINK_H
#define DLR_SINK_H
#include "runtime/formats/metrics.h"
#include "runtime/formats/tensorboard.h"
#include "runtime/formats/wandb.h"

/* Where the run stands that a point or picture is of: epochs that are over, steps that are made. */
typedef struct {
    int64_t epoch, iteration;
    bool between; /* within an epoch: of Weights & Biases, whose steps are epochs, left out */
} dlr_sink_at;

/* The functions of a format; one that it lacks is NULL. Errors of all: those of the format's
 * writer. */
typedef struct {
    bool (*point)(void *to, dlr_sink_at at, const dlr_metric *values, int n, dl_error *err);
    bool (*image)(void *to, dlr_sink_at at, const char *tag, dlr_png_view image, dl_error *err);
    bool (*settings)(void *to, dlr_sink_at at, const char *yaml, dl_error *err);
    /* the values of a sweep's trial */
    bool (*trial)(void *to, const dlr_hparam *values, int n, dl_error *err);
    bool (*flush)(void *to, dl_error *err);         /* makes all data so far durable; may run at the
                                                       same time as the other functions */
    bool (*end)(void *to, int code, dl_error *err); /* the run is over: DL_OK, or the fault's
                                                       code */
    void (*close)(void *to);
} dlr_sink_kind;

typedef struct {
    const dlr_sink_kind *kind;
    void *to;
} dlr_sink;
typedef DL_ARRAY(dlr_sink) dlr_sinks;

/* The list owns what it was given from here on. */
void dlr_sinks_add_metrics(dl_arena *arena, dlr_sinks *sinks, dlr_metrics *metrics);
void dlr_sinks_add_board(dl_arena *arena, dlr_sinks *sinks, dlr_tensorboard *board);
void dlr_sinks_add_wandb(dl_arena *arena, dlr_sinks *sinks, dlr_wandb *wandb);

/* Each to all of them, in the order in which they were added, up to the first that fails. */
bool dlr_sinks_point(const dlr_sinks *sinks, dlr_sink_at at, const dlr_metric *values, int n,
                     dl_error *err);
/* A picture belongs to the next point. */
bool dlr_sinks_image(const dlr_sinks *sinks, dlr_sink_at at, const char *tag, dlr_png_view image,
                     dl_error *err);
/* The configuration, as YAML. */
bool dlr_sinks_settings(const dlr_sinks *sinks, dlr_sink_at at, const char *yaml, dl_error *err);
/* The values that a sweep gave this run. */
bool dlr_sinks_trial(const dlr_sinks *sinks, const dlr_hparam *values, int n, dl_error *err);
bool dlr_sinks_flush(const dlr_sinks *sinks, dl_error *err);
bool dlr_sinks_end(const dlr_sinks *sinks, int code, dl_error *err);
void dlr_sinks_close(dlr_sinks *sinks); /* and empties the list */
#endif
