/* A run's directory: out.log  hyperparams.yaml  metrics.jsonl  prediction.png  logs/  wandb/
 * checkpoints/ profile.json  profile.txt */
#ifndef DLR_RUNDIR_H
#define DLR_RUNDIR_H
#include "ir/base/arena.h"

typedef struct {
    const char *path; /* without a final slash */
    const char *log, *hyperparams, *metrics, *picture, *board, *wandb, *checkpoints, *profile,
        *profile_table, *kernels;
    int lock;
} dlr_rundir;

/* The names alone, for a rank that writes nothing there. */
void dlr_rundir_name(dl_arena *arena, const char *path, dlr_rundir *dir);
/* Makes the directory `path` (without a final slash) and locks it, so that two runs do not write to
 * it. Errors: DL_IO (with path and cause), DL_USAGE (another run is at work there). */
bool dlr_rundir_open(dl_arena *arena, const char *path, dlr_rundir *dir, dl_error *err);
void dlr_rundir_close(dlr_rundir *dir);

/* For a run that starts anew: moves all files of an earlier run, except out.log, to the directory
 * PATH.N next to it, with N above all present ones. So nothing is ever lost, and a run of that
 * directory can resume it. *kept: the new directory's last name, in the arena; NULL: there were no
 * files. Errors: DL_IO; then some files have moved, and the rest have not. */
bool dlr_rundir_set_aside(dl_arena *arena, const dlr_rundir *dir, const char **kept, dl_error *err);
#endif
