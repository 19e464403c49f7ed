/* The collectives of a plan over the comm of its run: who takes part in each is a matter of the run. */
#ifndef DLR_EXCHANGE_H
#define DLR_EXCHANGE_H
#include "ir/plan/plan.h"
#include "runtime/comm/comm_device.h"

/* A group of the plan's ("dp", "tp", ...): its number in the comm, and where this rank stands in it. */
typedef struct {
    const char *name;
    int number, rank, size;
    const int *places; /* by rank of the world: its place in the group of this name that it is in */
} dlr_group;

/* What a run's ranks are to an executor. comm NULL: there is one rank. */
typedef struct {
    dlr_comm *comm;
    int n;
    const dlr_group *groups;
} dlr_ranks;

/* The group of this name, or NULL. */
const dlr_group *dlr_group_find(const dlr_ranks *ranks, const char *name);

/* Whether the plans of all ranks go together: all have their collectives in one order, of the same kinds,
 * groups and values, and those of a group the same sizes and places in buckets, which may differ from group
 * to group (tokens need not divide evenly). All ranks call it. Errors: DL_INPUT, naming the ranks whose plan
 * is another; DL_PEER. */
bool dlr_exchange_agree(const dl_plan *plan, const dlr_ranks *ranks, dl_error *err);

typedef struct dlr_exchange dlr_exchange;

/* Prepares every collective of every program, so that a step looks nothing up; `base` is where the arena
 * begins. NULL with an error: DL_USAGE (a plan for several ranks without a comm, a group that the run has not
 * or whose size is another), DL_INPUT (pieces that are not this rank's). `ranks` and its groups are copied.
 */
dlr_exchange *dlr_exchange_open(dl_arena *arena, const dl_plan *plan, const dlr_ranks *ranks, char *base,
                                dl_error *err);
/* Begins collective `number` of a program; never waits. */
void dlr_exchange_start(dlr_exchange *x, int program, int number);
/* Whether a wait for it would return at once. */
bool dlr_exchange_done(dlr_exchange *x, int program, int number);
/* The same on a device, of a comm between devices, where `base` is the device's address: puts it into a
 * stream. Errors as dlr_comm_enqueue. */
bool dlr_exchange_enqueue(dlr_exchange *x, int program, int number, dlr_cu_stream stream, dl_error *err);
/* What that needs for all of the plan's collectives. Errors: DL_RESOURCE. */
bool dlr_exchange_reserve(dlr_exchange *x, const dl_plan *plan, dl_error *err);
/* "all_reduce of conv1.weight at models/unet.dl:3" */
const char *dlr_exchange_what(const dlr_exchange *x, int program, int number);
/* Waits for it. Errors: DL_PEER. */
bool dlr_exchange_wait(dlr_exchange *x, int program, int number, dl_error *err);
#endif
