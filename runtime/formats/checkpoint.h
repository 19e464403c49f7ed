/* Checkpoints: one directory each, written atomically, verified when read.
 *
 *   checkpoints/step-00000048/
 *     model.safetensors       parameters and buffers under PyTorch's names
 *     optimizer.safetensors   Adam's exp_avg.NAME, exp_avg_sq.NAME, step.NAME
 *     scaler.safetensors      with fp16: scaler.scale, scaler.good, scaler.skipped
 *     state.json              the run's position; size and checksum of every file, its own too
 *   checkpoints/last -> step-00000048   the one that a resumed run takes
 *   checkpoints/best -> step-00000024   the one with the lowest validation loss
 *
 * A file may be several, one for each of the ranks that write it, with Hugging Face's names:
 *   model-00001-of-00004.safetensors ...
 *   model.safetensors.index.json        maps tensors to these files
 *
 * Of a sharded tensor each file has a box (dlr_st_open_joined).
 *
 * A checkpoint is written as step-N.tmp, made durable (fsync of each file and of the directory) and
 * renamed; the new link `last` is the commit. Wherever a crash falls, `last` names a whole
 * checkpoint, or one of the others can be loaded. One process writes a directory, or the ranks of
 * one run; any number may read it meanwhile. */
#ifndef DLR_CHECKPOINT_H
#define DLR_CHECKPOINT_H
#include "runtime/formats/stored.h"

/* An additional value of state.json, for the training loop's own state: a number, a list of
 * numbers, or text. */
typedef enum { DLR_STATE_INT, DLR_STATE_REALS, DLR_STATE_TEXT } dlr_state_kind;
typedef struct {
    const char *key;
    dlr_state_kind kind;
    int64_t integer;
    const double *reals; /* stored exactly, including NaN and infinities */
    int n_reals;
    const char *text;
} dlr_state_value;

/* A run's position. Every value is restored exactly. */
typedef struct {
    int64_t epoch;     /* epochs finished */
    int64_t iteration; /* optimizer steps taken; this names the checkpoint */
    int64_t position;  /* batches of the current epoch that were already trained on */
    uint64_t seed;     /* of all random numbers, which are functions of (seed, step, op, element) */
    double best_loss;  /* lowest validation loss so far; infinity before the first validation */
    double epoch_loss; /* sum of the training losses of the current epoch's batches so far */
    const dlr_state_value *values;
    int n_values;
} dlr_state;

/* A part, the file NAME.safetensors. Names consist of [a-z0-9_]; one of several files has its
 * number after the name (dlr_checkpoint_shard_name). */
typedef struct {
    const char *name;
    dlr_st_content content;
} dlr_checkpoint_part;

typedef struct {
    const dlr_checkpoint_part *parts;
    int n_parts;
    dlr_state state;
    bool is_best; /* also moves the link `best` here */
    int keep; /* number of newest checkpoints to keep, at least 1; in addition the one that `best`
                 names, and: */
    const int64_t *keep_steps; /* those of these steps, as far as they are there */
    int n_keep_steps;
} dlr_checkpoint_content;

/* Writes a checkpoint into `dir` (made if absent). It removes temporaries of crashed runs,
 * checkpoints older than the `keep` newest, and those of later steps than this, which a resumed run
 * has abandoned. Errors: DL_IO, DL_RESOURCE with path and cause, DL_NUMERIC where a part requires
 * finite values and has others; the earlier checkpoints are then unchanged. A failed fsync is
 * final: the pages are gone, and the run should stop or save to another place. */
bool dlr_checkpoint_save(const char *dir, const dlr_checkpoint_content *content, dl_error *err);

/* ---- the same by several ranks: begin on one rank, then write on each, then commit on the first
 * one ---- */

/* The name of a part's file: "model-00002-of-00004", numbered from 1. */
char *dlr_checkpoint_shard_name(dl_arena *arena, const char *part, int number, int of);
/* A file that a rank has written. */
typedef struct {
    const char *name; /* as in dlr_checkpoint_part */
    dlr_st_written written;
} dlr_checkpoint_file;
/* Removes leftovers as dlr_checkpoint_save does, and makes the directory that the ranks write into.
 * Errors: as there. */
bool dlr_checkpoint_begin(const char *dir, int64_t iteration, dl_error *err);
/* Writes this rank's parts into it, durably; `written` has an element for each. Errors: as of
 * dlr_checkpoint_save. */
bool dlr_checkpoint_write(const char *dir, const dlr_checkpoint_content *content,
                          dlr_st_written *written, dl_error *err);
/* Commits when all ranks have written: the checkpoint consists of these files, and of `index` (the
 * text of model.safetensors.index.json; NULL: none). Older checkpoints are removed. The content's
 * parts are ignored. Errors: as of dlr_checkpoint_save; DL_IO, naming the file, if a file differs
 * from its rank's report or is missing. */
bool dlr_checkpoint_commit(const char *dir, const dlr_checkpoint_content *content,
                           const dlr_checkpoint_file *files, int n, const char *index,
                           dl_error *err);

/* An open checkpoint. */
typedef struct {
    const char *path; /* path of its directory */
    dlr_state state;
    const char *const *warnings; /* the reasons why newer candidates were rejected, for the log */
    int n_warnings;
    struct dlr_checkpoint_private *private;
} dlr_checkpoint;

typedef enum {
    DLR_CHECKPOINT_LOADED,
    DLR_CHECKPOINT_NONE,  /* nothing was ever saved here: begin a new run */
    DLR_CHECKPOINT_FAILED /* a checkpoint exists and cannot be loaded: do not overwrite it by a new
                             run */
} dlr_checkpoint_outcome;

/* Whether there is anything that dlr_checkpoint_open would consider. */
bool dlr_checkpoint_any(const char *dir);

/* The object of a user's path: a run, whose checkpoints are in `checkpoints`; such a folder
 * itself; or a single checkpoint. */
typedef struct {
    const char *dir;   /* arguments of dlr_checkpoint_open: */
    const char *which; /* "last"; NULL: `dir` is the checkpoint */
    const char *run;   /* the run's directory, as far as the names show it; NULL: unknown */
} dlr_checkpoint_place;
/* Errors: DL_INPUT for a path that is none of these; DL_IO where it cannot be read. */
bool dlr_checkpoint_find(dl_arena *arena, const char *path, dlr_checkpoint_place *place,
                         dl_error *err);

/* Ranks that open a checkpoint together. Each verifies its share of the files, and all reject a
 * checkpoint that one rank finds damaged. All ranks must call both functions; they fail (DL_PEER,
 * DL_INPUT) where another rank is lost or passes another number. */
typedef struct {
    int rank, n;
    bool (*same)(void *context, uint64_t number, const char *what, dl_error *err);
    /* gets the largest of all ranks */
    bool (*most)(void *context, int64_t number, int64_t *most, dl_error *err);
    void *context;
} dlr_checkpoint_readers;

/* Opens the checkpoint that the link `which` names ("last" or "best"), or that has this name
 * itself; every file is verified by size and checksum. If it is damaged, the newest older one that
 * verifies is opened, with a warning for each rejected one, and for a missing link. `which` NULL:
 * `dir` is the checkpoint itself, and no other is tried. `readers` NULL: this process alone. Errors
 * (FAILED only): DL_INPUT naming each fault; DL_IO; the error of readers->same, for ranks that do
 * not find the same checkpoints. */
dlr_checkpoint_outcome dlr_checkpoint_open(const char *dir, const char *which,
                                           const dlr_checkpoint_readers *readers,
                                           dlr_checkpoint **checkpoint, dl_error *err);
/* Makes `last` name the checkpoint that a run continues from, and `best` if it is the best: a crash
 * between a checkpoint and its links leaves the links old. Errors: DL_IO. */
bool dlr_checkpoint_adopt(const char *dir, const dlr_checkpoint *checkpoint, bool is_best,
                          dl_error *err);
void dlr_checkpoint_close(dlr_checkpoint *checkpoint); /* NULL is fine */

/* The file NAME.safetensors, or its several files as one, open until the checkpoint is closed.
 * Errors: DL_INPUT when it has no such part. */
const dlr_st_file *dlr_checkpoint_part_file(const dlr_checkpoint *checkpoint, const char *name,
                                            dl_error *err);
/* An additional value of the state, or NULL. */
const dlr_state_value *dlr_checkpoint_value(const dlr_checkpoint *checkpoint, const char *key);
/* An additional value that is a whole number; 0: it is absent. */
int64_t dlr_checkpoint_integer(const dlr_checkpoint *checkpoint, const char *key);
#endif
