/* Shared by the files of the Weights & Biases writer. */
#ifndef DLR_WANDB_INTERNAL_H
#define DLR_WANDB_INTERNAL_H
#include "runtime/formats/wandb.h"
#include "runtime/formats/wandb_log.h"

/* Field numbers of wandb_internal.proto. */
enum {
    RECORD_NUMBER = 1,
    RECORD_HISTORY = 2,
    RECORD_SUMMARY = 3,
    RECORD_CONFIG = 5,
    RECORD_FILES = 6,
    RECORD_RUN = 17,
    RECORD_EXIT = 18,
    RECORD_FINAL = 20,
    RECORD_HEADER = 21,
    RECORD_PREEMPTING = 23
};
enum { HEADER_VERSION = 1, VERSION_PRODUCER = 1 };
enum {
    RUN_ID = 1,
    RUN_ENTITY = 2,
    RUN_PROJECT = 3,
    RUN_CONFIG = 4,
    RUN_GROUP = 6,
    RUN_JOB_TYPE = 7,
    RUN_NAME = 8,
    RUN_NOTES = 9,
    RUN_TAG = 10,
    RUN_SWEEP = 12,
    RUN_HOST = 13,
    RUN_START = 17
};
enum { TIME_SECONDS = 1, TIME_NANOS = 2 };
enum { ITEMS = 1, ITEM_KEY = 1, ITEM_JSON = 16 }; /* of history, summary and configuration */
enum { HISTORY_STEP = 2, STEP_NUMBER = 1 };
enum { FILES_FILE = 1, FILE_PATH = 1 };
enum { EXIT_CODE = 1, EXIT_RUNTIME = 2 };

typedef struct {
    const char *tag;
    dlr_png_view png;
} dlr_wandb_picture;

struct dlr_wandb {
    dl_arena *arena;
    const char *folder, *id;
    dlr_wandb_log *log;
    bool has_run;          /* the file has a run record */
    int64_t newest;        /* step; -1: none */
    double began, earlier; /* by dl_clock_seconds; the run's seconds before that */
    dl_buf values;         /* the values of the newest point, as members of an object */
    dl_arena *held;        /* holds pictures for the next point */
    DL_ARRAY(dlr_wandb_picture) pictures;
};

/* Seconds that the run has worked, including earlier starts. */
double dlr_wandb_seconds(const dlr_wandb *w);
/* Writes the message of this field as one record; frees it. */
bool dlr_wandb_put_record(dlr_wandb *w, int field, dl_buf *message, dl_error *err);
/* Appends a key and its value, as JSON, to a history, summary or configuration. */
void dlr_wandb_put_item(dl_buf *message, const char *key, const char *json);
/* Writes the record of a file; `path` is relative to files/. */
bool dlr_wandb_put_file(dlr_wandb *w, const char *path, dl_error *err);
#endif
