/* The writer of a run's checkpoints: gathered between two steps, and written while the next steps
 * run, by a thread and from a copy in memory; or, without it, by the loop itself. */
#ifndef DLR_CHECKPOINTER_H
#define DLR_CHECKPOINTER_H
#include "runtime/base/background.h"
#include "runtime/checkpoint/shards.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/report/sink.h"
#include "runtime/train/best.h"
#include "runtime/train/torch_run.h"
#include "runtime/train/train_ranks.h"

typedef struct {
    bool async;   /* checkpoints are copied in memory, and written while training goes on */
    bool sharded; /* each rank writes its part of them (shards.h), not rank 0 all; without
                     `torch` */
    int keep;     /* newest checkpoints kept */
    const dlr_torch_optimizer *torch; /* with each, checkpoints/ckpt.tar and ckpt_best.tar; NULL:
                                         none */
} dlr_checkpointer_options;

/* A checkpoint that is put together or written. */
typedef struct dlr_saving dlr_saving;

typedef struct {
    const dlr_checkpointer_options *o;
    const char *dir; /* of checkpoints */
    dlr_exec *exec;
    const dlr_run_ranks *ranks;
    const dlr_sinks *sinks; /* become durable before a checkpoint does */
    dl_arena *arena;

    dlr_background *thread;
    dlr_snapshot snapshot;
    dlr_saving *saving; /* under way; NULL: none */
    dlr_shards *shards; /* each rank writes its own part of them; NULL: rank 0 writes them */
    bool written;       /* this rank's part of the one under way is durable, or, with a fault, never
                           will be */
    dl_error fault;
    bool committing; /* and so are all ranks': rank 0 makes them a checkpoint */
    bool asking;     /* the ranks' flags are being reduced: */
    int64_t ticket;
    int32_t flags[2]; /* ours, and the largest of all: still at it */
    int n;
    double copied, waited, wrote; /* seconds: of the loop for copies, and for files; of all
                                     writing */
} dlr_checkpointer;

/* The content of a checkpoint in addition to the plan's tensors. */
typedef struct {
    const dlr_state *at; /* without values: */
    void (*put_values)(const void *run, dl_arena *arena, dlr_state_list *list);
    const void *run;
    bool is_best;
    const dlr_best *best;       /* whose checkpoints are kept */
    const dlr_torch_run *torch; /* the run for PyTorch's programs; NULL: not in their form */
} dlr_checkpoint_request;

/* Allocates the memory that checkpoints need in addition to the plan's, where o->async is set. All
 * up to `arena` must be set. Errors: DL_RESOURCE; those of dlr_shards_plan. */
bool dlr_checkpointer_open(dlr_checkpointer *c, dl_error *err);
/* Saves the run as it stands: the loop waits for the checkpoint before this one, if it is still
 * under way, and for a copy in memory (or, without o->async, for all of it). Errors: those of
 * dlr_checkpoint_save and dlr_torch_run_write, of the one before; without o->async of this one. All
 * ranks call this and the next two, at the same steps: with o->sharded each writes, and they agree
 * that all have written. */
bool dlr_checkpointer_save(dlr_checkpointer *c, const dlr_checkpoint_request *request,
                           dl_error *err);
/* Between steps: the fault of a checkpoint that was done meanwhile. */
bool dlr_checkpointer_check(dlr_checkpointer *c, dl_error *err);
/* Waits for the one under way, if there is one, and gives its fault. */
bool dlr_checkpointer_wait(dlr_checkpointer *c, dl_error *err);
void dlr_checkpointer_log(const dlr_checkpointer *c);
/* Waits, and frees everything; an unreported fault goes to the log. Does not wait for other ranks:
 * parts that are not durable on all of them are no checkpoint. */
void dlr_checkpointer_close(dlr_checkpointer *c);

/* checkpointer_parts.c: gives all ranks the list of written files of a checkpoint, in the order of
 * shards->names; `own` are this rank's. Errors: DL_PEER. */
bool dlr_checkpointer_gather_written(const dlr_checkpointer *c, const dlr_st_written *own,
                                     dlr_checkpoint_file *all, dl_error *err);
/* Begins to ask whether any rank is still at its part, and hears it. */
void dlr_checkpointer_ask_written(dlr_checkpointer *c);
bool dlr_checkpointer_hear_written(dlr_checkpointer *c, bool *all, dl_error *err);
#endif
