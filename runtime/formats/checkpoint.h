/* Checkpoints: a directory each, never lost, never torn, verified when read.
 *
 *   checkpoints/step-00000048/model.safetensors       parameters and buffers under PyTorch's names
 *                             optimizer.safetensors   Adam's exp_avg.NAME, exp_avg_sq.NAME,
 * step.NAME scaler.safetensors      with fp16: scaler.scale, scaler.good, scaler.skipped state.json
 * where the run stood; size and checksum of every file, and its own checkpoints/last ->
 * step-00000048   what a resume takes checkpoints/best -> step-00000024   lowest validation loss
 *
 * A file may be several, one from each of the ranks that write it, called as Hugging Face has it:
 *   model-00001-of-00004.safetensors ...      and model.safetensors.index.json, which says what is
 * where Of a tensor that is cut each has a box (dlr_st_open_joined).
 *
 * A checkpoint is written as step-N.tmp, made durable (fsync of each file and of the directory) and
 * renamed; the new link `last` is the commit. Wherever a crash falls, `last` names a whole
 * checkpoint, or one of the others loads. One process writes a directory, or the ranks of one run;
 * any number may read it meanwhile. */
#ifndef DLR_CHECKPOINT_H
#define DLR_CHECKPOINT_H
#include "runtime/formats/stored.h"

/* A further value of state.json, for what only the loop knows: a number, a list of numbers, or
 * text. */
typedef enum { DLR_STATE_INT, DLR_STATE_REALS, DLR_STATE_TEXT } dlr_state_kind;
typedef struct {
    const char *key;
    dlr_state_kind kind;
    int64_t integer;
    const double *reals; /* kept to the last bit; NaN and infinities too */
    int n_reals;
    const char *text;
} dlr_state_value;

/* Where a run stands. Everything comes back to the last bit. */
typedef struct {
    int64_t epoch;     /* epochs finished */
    int64_t iteration; /* optimiser steps taken; names the checkpoint */
    int64_t position;  /* batches of the current epoch already trained on */
    uint64_t seed;    /* of every random number: those are functions of (seed, step, op, element) */
    double best_loss; /* lowest validation loss so far; infinity before the first */
    double epoch_loss; /* sum of the training losses of the current epoch's batches so far */
    const dlr_state_value *values;
    int n_values;
} dlr_state;

/* A file of the checkpoint: NAME.safetensors. Names are of [a-z0-9_], behind which one of several
 * files has its number (dlr_checkpoint_shard_name). */
typedef struct {
    const char *name;
    dlr_st_content content;
} dlr_checkpoint_part;

typedef struct {
    const dlr_checkpoint_part *parts;
    int n_parts;
    dlr_state state;
    bool is_best; /* also moves the link `best` here */
    int keep;     /* how many of the newest stay, at least 1; what `best` names stays besides */
} dlr_checkpoint_content;

/* Writes a checkpoint into `dir` (made if absent). Removes temporaries of runs that died,
 * checkpoints older than the `keep` newest, and those of later steps than this (of a future that a
 * resume from here gave up). Errors: DL_IO, DL_RESOURCE with path and cause, DL_NUMERIC where a
 * part asks for finite values and has others; then the checkpoints before are as they were. An
 * fsync that failed is final: the pages are gone, and the run should stop or save to another place.
 */
bool dlr_checkpoint_save(const char *dir, const dlr_checkpoint_content *content, dl_error *err);

/* ---- the same by several ranks: begin on one, then write on each, then commit on that one again
 * ---- */

/* "model-00002-of-00004": the number-th of a part's files, from 1. */
char *dlr_checkpoint_shard_name(dl_arena *arena, const char *part, int number, int of);
/* A file that a rank has written. */
typedef struct {
    const char *name; /* as of a part */
    dlr_st_written written;
} dlr_checkpoint_file;
/* Clears up as dlr_checkpoint_save does, and makes the directory that ranks write into. Errors: as
 * there. */
bool dlr_checkpoint_begin(const char *dir, int64_t iteration, dl_error *err);
/* This rank's parts into it, durable; `written` has room for each. Errors: as of
 * dlr_checkpoint_save. */
bool dlr_checkpoint_write(const char *dir, const dlr_checkpoint_content *content,
                          dlr_st_written *written, dl_error *err);
/* All ranks have written: the checkpoint of these files, and of `index` (the text of
 * model.safetensors.index.json; NULL: none), takes its place, and the others are pruned. The
 * content's parts are not looked at. Errors: as of dlr_checkpoint_save; DL_IO, naming it, for a
 * file that is not there as its rank says. */
bool dlr_checkpoint_commit(const char *dir, const dlr_checkpoint_content *content,
                           const dlr_checkpoint_file *files, int n, const char *index,
                           dl_error *err);

/* A checkpoint read back. */
typedef struct {
    const char *path; /* of its directory */
    dlr_state state;
    const char *const *warnings; /* why better candidates were passed over; for the log */
    int n_warnings;
    struct dlr_checkpoint_private *private;
} dlr_checkpoint;

typedef enum {
    DLR_CHECKPOINT_LOADED,
    DLR_CHECKPOINT_NONE,  /* nothing was ever saved here: start anew */
    DLR_CHECKPOINT_FAILED /* something is there and cannot be loaded: do not start anew over it */
} dlr_checkpoint_outcome;

/* Whether anything is there that dlr_checkpoint_open would look at. */
bool dlr_checkpoint_any(const char *dir);

/* What a directory that somebody names holds: a run, whose checkpoints lie in `checkpoints`; such a
 * folder itself; or one checkpoint alone. */
typedef struct {
    const char *dir;   /* for dlr_checkpoint_open: */
    const char *which; /* "last"; NULL: `dir` is the checkpoint */
    const char *run;   /* the run's directory, as far as its names tell; NULL: they do not */
} dlr_checkpoint_place;
/* Errors: DL_INPUT where it holds none of them; DL_IO where it cannot be looked at. */
bool dlr_checkpoint_find(dl_arena *arena, const char *path, dlr_checkpoint_place *place,
                         dl_error *err);

/* Ranks that open a checkpoint side by side: each reads through its share of the files, and what
 * one finds damaged is passed over by all. Both functions are called by all ranks alike; they fail
 * (DL_PEER, DL_INPUT) where another rank is lost or has another number. */
typedef struct {
    int rank, n;
    bool (*same)(void *context, uint64_t number, const char *what, dl_error *err);
    bool (*most)(void *context, int64_t number, int64_t *most,
                 dl_error *err); /* the largest of all */
    void *context;
} dlr_checkpoint_readers;

/* Opens the checkpoint that the link `which` names ("last" or "best"), or that is so called itself,
 * every file verified by size and checksum. When that one is damaged, the newest older one that
 * verifies, with a warning for each passed over, and for a link that is missing. `which` NULL:
 * `dir` is the checkpoint itself, and no other is tried. `readers` NULL: this process alone. Errors
 * (FAILED only): DL_INPUT naming each fault; DL_IO; what readers->same says, of ranks that do not
 * find the same checkpoints. */
dlr_checkpoint_outcome dlr_checkpoint_open(const char *dir, const char *which,
                                           const dlr_checkpoint_readers *readers,
                                           dlr_checkpoint **checkpoint, dl_error *err);
/* Makes `last` name the checkpoint that a run goes on from, and `best` if it is the best, where a
 * crash between a checkpoint and its links left them behind. Errors: DL_IO. */
bool dlr_checkpoint_adopt(const char *dir, const dlr_checkpoint *checkpoint, bool is_best,
                          dl_error *err);
void dlr_checkpoint_close(dlr_checkpoint *checkpoint); /* NULL is fine */

/* The file NAME.safetensors, or its several as one, open until the checkpoint is closed. Errors:
 * DL_INPUT when it has none such. */
const dlr_st_file *dlr_checkpoint_part_file(const dlr_checkpoint *checkpoint, const char *name,
                                            dl_error *err);
/* A further value of the state, or NULL. */
const dlr_state_value *dlr_checkpoint_value(const dlr_checkpoint *checkpoint, const char *key);
/* One that is a whole number; 0: it is not there. */
int64_t dlr_checkpoint_integer(const dlr_checkpoint *checkpoint, const char *key);
#endif
