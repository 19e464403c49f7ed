/* A run's directory, where system A's users look for it: {expdir}/{config}/{ranks}GPU/{run_num}/.
 *
 *   out.log  hyperparams.yaml  metrics.jsonl  prediction.png  logs/  checkpoints/
 *
 * "1GPU" is the name for one rank on a CPU as well: scripts expect it. */
#ifndef DLR_RUNDIR_H
#define DLR_RUNDIR_H
#include "ir/base/arena.h"

typedef struct {
    const char *path; /* without a slash behind it */
    const char *log, *hyperparams, *metrics, *picture, *board, *checkpoints;
    int lock;
} dlr_rundir;

typedef struct {
    const char *expdir, *config, *run_num;
    int ranks;
} dlr_rundir_name;

/* Makes the directory and locks it, so that two runs do not write one. Errors: DL_IO (with path and cause),
 * DL_USAGE (another run is at work there; a configuration or run_num that can be no folder's name). */
bool dlr_rundir_open(dl_arena *arena, const dlr_rundir_name *name, dlr_rundir *dir, dl_error *err);
void dlr_rundir_close(dlr_rundir *dir);

/* For a run that starts anew: all that an earlier one left, but out.log, moves to the run RUN_NUM.N beside
 * it, N behind all that are there, so that nothing is lost however often this is done and --run_num=RUN_NUM.N
 * goes on with it. *kept: that run's name, in the arena; NULL: there was nothing. Errors: DL_IO; what was
 * moved then lies there, and the rest where it was. */
bool dlr_rundir_renew(dl_arena *arena, const dlr_rundir *dir, const char **kept, dl_error *err);
#endif
