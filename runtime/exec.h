/* The executor: a plan on a device. Replays its programs; knows where its tensors are. */
#ifndef DLR_EXEC_H
#define DLR_EXEC_H
#include "ir/plan.h"
#include "runtime/device.h"
#include "runtime/pool.h"

typedef struct dlr_exec dlr_exec;

/* A tensor in the arena. */
typedef struct {
    const dl_type *type;       /* with the layout it is stored in; NULL: there is no such tensor */
    int64_t offset;            /* bytes from the arena's start */
    const dl_var_piece *piece; /* what of a whole tensor it is; NULL: the whole */
} dlr_view;

/* A variable that is fed, and below which number its whole numbers stay. */
typedef struct {
    const char *name;
    int64_t count;
} dlr_classed;

typedef struct {
    int threads;        /* of a CPU run, and of the host's own loops; 0: one a CPU */
    const char *device; /* as dlr_device_open; NULL: what the plan's target asks for */
    dlr_ranks ranks; /* that the plan's collectives go between; they outlive the executor; zero: one rank */
    const dlr_classed *classes; /* n_classes, which outlive it, too: for messages about numbers beyond */
    int n_classes;
    bool guards; /* every launch runs between canaries, and alone: slow (runtime/guard.h) */
} dlr_exec_options;

/* Opens the device (runtime/device.h), which loads every kernel and maps arena, workspace and scratch
 * (dl_plan_peak bytes, zeroed), and starts the threads. The plan must outlive the executor, and is trusted:
 * its objects are machine code, which runs in this process (dl_plan_read refuses files that others may
 * write). Variables are zero until dlr_state_init, but tables hold their numbers. Errors: DL_USAGE (threads,
 * device), DL_RESOURCE (memory, threads, no such device), DL_INPUT (a plan that does not hold together, a
 * kernel missing from its object), DL_IO (the system refuses to load code). */
dlr_exec *dlr_exec_open(const dl_plan *plan, dlr_exec_options options, dl_error *err);
void dlr_exec_close(dlr_exec *exec); /* NULL is fine */

/* Runs a program of the plan once, by index; what is read afterwards is of this run. Allocates nothing and
 * calls nothing that waits, but that a device's first run of a program captures it. Same plan and same memory
 * before: same bits after, for any number of threads. launch_ns, if not NULL: nanoseconds of each launch,
 * plan->programs.at[program].launches.n of them. */
void dlr_exec_run(dlr_exec *exec, int program, int64_t *launch_ns);
/* Runs one launch of a program; all of them in order are dlr_exec_run. */
void dlr_exec_run_launch(dlr_exec *exec, int program, int number);

/* Runs one step of a program, launch or collective; all of them in order, with dlr_exec_renew before the
 * first, are dlr_exec_run. For who steps several ranks in turn. */
void dlr_exec_run_step(dlr_exec *exec, int program, int step);
/* Whether it would run now, and not wait for another rank. */
bool dlr_exec_can_step(const dlr_exec *exec, int program, int step);

/* The same in two halves, for a loop that does not wait for each step: `start` begins a run, `take` waits for
 * the oldest that was not taken, and from then on losses and metrics (scalar results, by dlr_scalar) are
 * those of that run. At most dlr_exec_ahead runs may be started and not taken, all of one program. On the CPU
 * that is 1: a run is done when it has begun. */
void dlr_exec_start(dlr_exec *exec, int program);
void dlr_exec_take(dlr_exec *exec);
/* The next run, and copies from and to the device before it, are timed: `timeline` is written when that run
 * has begun. It runs launch by launch, to the same bits; no other may be under way. */
void dlr_exec_watch(dlr_exec *exec, dlr_timeline *timeline);
int dlr_exec_ahead(const dlr_exec *exec);
/* From now on runs go launch by launch, to the same bits, and `seen` looks at tensors behind each, without
 * writing any. NULL: nobody does any more. At most one run is to be under way then. */
void dlr_exec_observe(dlr_exec *exec, dlr_seen_fn *seen, void *context);

/* False when the device has failed since it was opened: nothing that was read since is to be used. Errors:
 * DL_RESOURCE, with what the device says. */
bool dlr_exec_check(const dlr_exec *exec, dl_error *err);
/* With guards: how many canaries, around arguments, workspaces and scratch, were found untouched. A kernel
 * that wrote into one is the device's fault, DL_INTERNAL with its name. */
int64_t dlr_exec_zones(const dlr_exec *exec);

/* What the device says of its memory now. False where it has none of its own, or failed. */
bool dlr_exec_memory(const dlr_exec *exec, dlr_device_memory *memory);

/* Index of a program, or -1. */
int dlr_exec_program(const dlr_exec *exec, const char *name);

dlr_view dlr_exec_variable(const dlr_exec *exec, const char *name);
/* What the optimiser keeps of a parameter under that name ("exp_avg"); no type: nothing. */
dlr_view dlr_exec_state(const dlr_exec *exec, const char *what, const char *param);
/* A program's result; holds its value from the end of a run of that program to the next run of any. name
 * NULL: the first of this role. */
dlr_view dlr_exec_result(const dlr_exec *exec, int program, dl_result_role role, const char *name);

/* Says that the host has written a tensor (dlr_state_write does): where it is a parameter that the plan keeps
 * in another type, too (DL_VAR_COPY), all such copies are made anew before the next run. */
void dlr_exec_written(dlr_exec *exec, dlr_view view);
/* Makes them anew now, where there are any to make: a run does it first, a single launch does not. */
void dlr_exec_renew(dlr_exec *exec);

/* The host's view of a stored tensor: dlr_device_table.host. */
void *dlr_exec_host(const dlr_exec *exec, dlr_view view, dlr_access access);
/* Whether inputs can be made by the device of a batch as its files have it
 * (dlr_device_table.gather), and where the host puts such a batch of so many bytes for that input. */
bool dlr_exec_gathers(const dlr_exec *exec);
void *dlr_exec_gather(const dlr_exec *exec, dlr_view view, int64_t batch, void *there);
/* dlr_device_table.hold and .put, where it gathers. */
bool dlr_exec_hold(const dlr_exec *exec, int64_t bytes, dl_error *err);
void dlr_exec_put(const dlr_exec *exec, int64_t at, const void *from, int64_t bytes);
bool dlr_exec_pin(const dlr_exec *exec, void *memory, int64_t bytes, dl_error *err);
void dlr_exec_unpin(const dlr_exec *exec, void *memory);
void dlr_exec_sent(const dlr_exec *exec);
/* A scalar result's bytes, of the run last taken. */
const void *dlr_exec_scalar(const dlr_exec *exec, dlr_view view);

const dlr_ranks *dlr_exec_ranks(const dlr_exec *exec);
const dlr_exec_options *dlr_exec_opened(const dlr_exec *exec); /* with what it was opened */
const dl_plan *dlr_exec_plan(const dlr_exec *exec);
dlr_pool *dlr_exec_pool(const dlr_exec *exec); /* for the host's own loops between runs */
/* The arena, plan->arena_bytes bytes, where it is the host's own memory; else NULL. */
char *dlr_exec_arena(const dlr_exec *exec);
/* A tensor there: NULL without a type, or where the arena is not the host's memory. */
void *dlr_exec_data(const dlr_exec *exec, dlr_view view);
#endif
