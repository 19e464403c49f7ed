/* A run's directory: out.log  hyperparams.yaml  metrics.jsonl  prediction.png  logs/  wandb/  checkpoints/
 * profile.json  profile.txt */
#ifndef DLR_RUNDIR_H
#define DLR_RUNDIR_H
#include "ir/base/arena.h"

typedef struct {
    const char *path; /* without a slash behind it */
    const char *log, *hyperparams, *metrics, *picture, *board, *wandb, *checkpoints, *profile, *profile_table;
    int lock;
} dlr_rundir;

/* The names alone, for a rank that writes nothing there. */
void dlr_rundir_name(dl_arena *arena, const char *path, dlr_rundir *dir);
/* Makes the directory `path` (no slash behind it) and locks it, so that two runs do not write one. Errors:
 * DL_IO (with path and cause), DL_USAGE (another run is at work there). */
bool dlr_rundir_open(dl_arena *arena, const char *path, dlr_rundir *dir, dl_error *err);
void dlr_rundir_close(dlr_rundir *dir);

/* For a run that starts anew: all that an earlier one left, but out.log, moves to the directory PATH.N beside
 * it, N behind all that are there, so that nothing is lost however often this is done, and a run of that
 * directory goes on with it. *kept: its last name, in the arena; NULL: there was nothing. Errors: DL_IO; what
 * was moved then lies there, and the rest where it was. */
bool dlr_rundir_renew(dl_arena *arena, const dlr_rundir *dir, const char **kept, dl_error *err);
#endif
