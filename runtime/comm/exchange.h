/* Runs a plan's collectives over the comm of its run; maps the plan's groups to ranks. */
#ifndef DLR_EXCHANGE_H
#define DLR_EXCHANGE_H
#include "ir/plan/plan.h"
#include "runtime/comm/comm_device.h"

/* A group of the plan ("dp", "tp", ...): its number in the comm, and this rank's index in it. */
typedef struct {
    const char *name;
    int number, rank, size;
    const int *places; /* by rank of the world: its index in its own group of this name */
} dlr_group;

/* The ranks of a run, for an executor. comm NULL: there is one rank. */
typedef struct {
    dlr_comm *comm;
    int n;
    const dlr_group *groups;
} dlr_ranks;

/* The group of this name, or NULL. */
const dlr_group *dlr_group_find(const dlr_ranks *ranks, const char *name);

/* Checks that the plans of all ranks agree: the same collectives in one order, of the same kinds,
 * groups and values. Sizes and offsets in buckets must be equal within a group, but may differ
 * between groups (tokens need not divide evenly). All ranks must call it. Errors: DL_INPUT, naming
 * the ranks with another plan; DL_PEER. */
bool dlr_exchange_agree(const dl_plan *plan, const dlr_ranks *ranks, dl_error *err);

typedef struct dlr_exchange dlr_exchange;

/* Prepares every collective of every program, so that a step needs no lookup; `base` is the arena's
 * begin. NULL with an error: DL_USAGE (a plan for several ranks without a comm, a group that the
 * run does not have, or with another size), DL_INPUT (shards that are not this rank's). `ranks` and
 * its groups are copied. */
dlr_exchange *dlr_exchange_open(dl_arena *arena, const dl_plan *plan, const dlr_ranks *ranks,
                                char *base, dl_error *err);
/* Begins collective `number` of a program; never waits. */
void dlr_exchange_start(dlr_exchange *x, int program, int number);
/* Whether dlr_exchange_wait would return at once. */
bool dlr_exchange_done(dlr_exchange *x, int program, int number);
/* The same for a comm between devices, where `base` is a device address: enqueues the collective in
 * a stream. Errors as dlr_comm_enqueue. */
bool dlr_exchange_enqueue(dlr_exchange *x, int program, int number, dlr_cu_stream stream,
                          dl_error *err);
/* Allocates the device memory that enqueuing the plan's collectives needs. Errors: DL_RESOURCE. */
bool dlr_exchange_reserve(dlr_exchange *x, const dl_plan *plan, dl_error *err);
/* The collective's description: "all_reduce of conv1.weight at models/unet.dl:3". */
const char *dlr_exchange_what(const dlr_exchange *x, int program, int number);
/* Waits for the collective. Errors: DL_PEER. */
bool dlr_exchange_wait(dlr_exchange *x, int program, int number, dl_error *err);
#endif
