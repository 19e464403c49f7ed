/* A run in the offline format of Weights & Biases, which `wandb sync FOLDER` uploads.
 *
 *     DIR/latest-run -> offline-run-YYYYMMDD_HHMMSS-ID/
 *         run-ID.wandb                 records (wandb_log.h), each a protobuf Record, see below
 *         files/wandb-metadata.json    program, host, start
 *         files/wandb-summary.json     the newest values, at the end
 *         files/media/images/          pictures
 *
 * Records are header, run with its configuration, files, summary and history of each point, and at
 * the end exit and final. Field numbers are those of wandb_internal.proto (wandb 0.16 and 0.31
 * agree in these). A resumed run continues its file: one run, one file, whose steps rise. Without
 * the exit record, as in a killed run's file, `wandb sync` of 0.31 reports exit status 1. */
#ifndef DLR_WANDB_H
#define DLR_WANDB_H
#include "runtime/formats/json.h"
#include "runtime/formats/metrics.h"
#include "runtime/formats/tensorboard.h"

typedef struct dlr_wandb dlr_wandb;

/* NULL: not given. */
typedef struct {
    const char *folder; /* where offline-run-... is made; NULL: next to the link in `dir` */
    const char *id;     /* see dlr_wandb_check_id; NULL: that of the resumed run, or a random one */
    const char *entity, *project, *group, *name, *job_type, *notes, *sweep;
    const char *tags; /* separated by commas */
    const dlr_json *config;
    char *const *words; /* of the command line, beginning with the program */
    int n_words;
} dlr_wandb_options;

/* Whether `id` is a valid run id: 1 to 128 bytes, a file name in UTF-8, without / \ # ? % : and
 * blanks. */
bool dlr_wandb_check_id(const char *id);

/* Opens the run that DIR/latest-run points to, and keeps the points of at most `epoch` epochs.
 * Where there is none, none of this id, or `epoch` is -1, it begins a run and points the link to
 * it. Errors: DL_IO, DL_INPUT; NULL. */
dlr_wandb *dlr_wandb_open(const char *dir, const dlr_wandb_options *options, int64_t epoch,
                          dl_error *err);
/* The run's folder. */
const char *dlr_wandb_folder(const dlr_wandb *w);
/* The newest step in the file; -1: none. */
int64_t dlr_wandb_newest(const dlr_wandb *w);

/* Adds a picture to the next point. */
void dlr_wandb_image(dlr_wandb *w, const char *tag, dlr_png_view image);
/* Appends one point, of step `epoch`, with the pictures since the last one; `iteration` is a value
 * like the others. A step that exists already is not changed. `timed`: the point was made now.
 * Errors: DL_IO with path and cause. */
bool dlr_wandb_put(dlr_wandb *w, int64_t epoch, int64_t iteration, const dlr_metric *values, int n,
                   bool timed, dl_error *err);
/* Makes all records so far durable (fdatasync). Errors: DL_IO. */
bool dlr_wandb_flush(const dlr_wandb *w, dl_error *err);
/* Ends the run: code 0 finished, DL_REQUEUE preempted, another code failed. Errors: DL_IO. */
bool dlr_wandb_end(dlr_wandb *w, int code, dl_error *err);
void dlr_wandb_close(dlr_wandb *w); /* NULL is fine */
#endif
