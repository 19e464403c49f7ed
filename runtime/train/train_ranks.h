/* Messages between a run's ranks in addition to a step's own collectives: that they begin with the
 * same state, that all have arrived, and a norm's running statistics. With one rank there are
 * none. */
#ifndef DLR_TRAIN_RANKS_H
#define DLR_TRAIN_RANKS_H
#include "runtime/exec/exec.h"
#include "runtime/formats/checkpoint.h"

/* The ranks that train together. Zero: one rank. Rank 0 alone writes files, except parts of
 * checkpoints. */
typedef struct {
    dlr_comm *comm;            /* NULL: nobody else */
    int rank, size;            /* in the world; size 0 as 1 */
    int data_rank, data_ranks; /* among the ranks that have different samples; 0 as 1 */
    int64_t check_every;       /* steps after which all ranks' weights are compared; 0: they are
                                  not */
    bool own_buffers;          /* each rank validates with the running statistics of its own
                                  samples */
} dlr_run_ranks;

/* Whether this rank writes files, log and records. */
static inline bool dlr_is_rank0(const dlr_run_ranks *ranks) { return ranks->rank == 0; }

/* Checks that all ranks have plans that agree, and begin at the same step with the same weights.
 * Errors: DL_INPUT, naming the ranks that differ; DL_PEER. */
bool dlr_ranks_check_begin(const dlr_run_ranks *ranks, dlr_exec *exec, int64_t iteration,
                           dl_error *err);
/* Called after a step: every `check_every` steps, checks that all ranks still have the same
 * weights. Errors: as above. */
bool dlr_ranks_check_replicas(const dlr_run_ranks *ranks, dlr_exec *exec, int64_t iteration,
                              dl_error *err);
/* Waits for all ranks. */
bool dlr_ranks_barrier(const dlr_run_ranks *ranks, dl_error *err);
/* Rank 0's running statistics to all, unless each is to have its own. */
bool dlr_ranks_share_buffers(const dlr_run_ranks *ranks, dlr_exec *exec, dl_error *err);

/* Starts to find the largest of all ranks' flags[0], which goes into flags[1]; the ticket. */
int64_t dlr_ranks_start_largest(dlr_comm *comm, int32_t flags[2], const char *what);
/* Gives all ranks the fault of the first rank that has one: *fault is this rank's, or none. Errors:
 * DL_PEER. */
bool dlr_ranks_share_fault(const dlr_run_ranks *ranks, dl_error *fault, dl_error *err);
/* The ranks as readers of a checkpoint, in the arena; NULL: there is one. */
const dlr_checkpoint_readers *dlr_ranks_readers(const dlr_run_ranks *ranks, dl_arena *arena);
#endif
