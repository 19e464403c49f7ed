/* A run's curves, settings and log lines, read from its directory. */
#ifndef DL_RUN_FACTS_H
#define DL_RUN_FACTS_H
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "ir/base/str.h"

/* The points of one recorded value, by optimizer steps. */
typedef struct {
    const char *tag; /* interned: "Loss/train" */
    DL_ARRAY(double) steps;
    DL_ARRAY(double) values;
} dl_run_curve;

typedef struct {
    const char *key; /* interned: "start_lr", "data.split" */
    const char *value;
} dl_run_setting;

typedef struct {
    const char *dir;
    const char *begun, *ended; /* times of the first and last line of its log; "": there is none */
    bool done;                 /* the log ends as that of a whole run does */
    int64_t epochs, steps;     /* of the last point */
    DL_ARRAY(dl_run_curve) curves;
    DL_ARRAY(dl_run_setting) settings;
    DL_ARRAY(const char *) about; /* the log's lines before the first step: data, device, memory */
} dl_run_facts;

/* Reads the directory of a run. Errors: DL_INPUT where it has no metrics.jsonl; those of files. */
bool dl_run_read(dl_arena *arena, const char *dir, dl_run_facts *out, dl_error *err);
/* The curve of a tag, or NULL. */
const dl_run_curve *dl_run_find_curve(const dl_run_facts *r, const char *tag);
/* The value of a setting, or NULL. */
const char *dl_run_find_setting(const dl_run_facts *r, const char *key);
/* Whether the value of a setting is the default of its key. */
bool dl_run_is_default(const dl_run_setting *s);
/* The curve of the validation's loss, else of the training's, whatever the log format calls it;
 * NULL: there is none. */
const dl_run_curve *dl_run_loss(const dl_run_facts *r);
/* The smallest value that is finite, after the first step: the untrained model is measured on one
 * batch. NAN: there is none. */
double dl_run_least(const dl_run_curve *c);
#endif
