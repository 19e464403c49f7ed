/* The executor: opens a plan on a device and replays its programs. Its tensors: exec_tensors.h. */
#ifndef DLR_EXEC_H
#define DLR_EXEC_H
#include "runtime/exec/exec_tensors.h"

/* An input or target of class numbers, each of which must be below `count`. */
typedef struct {
    const char *name;
    int64_t count;
} dlr_classed;

typedef struct {
    int threads;        /* threads of a CPU run, and of the host's own loops; 0: one per CPU */
    const char *device; /* as dlr_device_open; NULL: the device of the plan's target */
    dlr_ranks ranks; /* the ranks of the plan's collectives; they must outlive the executor; zero:
                        one rank */
    const dlr_classed *classes; /* n_classes, which must outlive it, too: for messages about numbers
                                   out of range */
    int n_classes;
    dlr_memory_fn *memory; /* of a device with memory of its own; called with memory_context before
                              the plan's is allocated; NULL: it is not called */
    void *memory_context;
    bool guards; /* every launch runs between canaries, and alone: slow (runtime/device/guard.h) */
} dlr_exec_options;

/* Opens the device (runtime/device/device.h), which loads every kernel and maps arena, workspace
 * and scratch (dl_plan_peak bytes, zeroed), and starts the threads. The plan must outlive the
 * executor, and must be trusted: its objects are machine code, which runs in this process
 * (dl_plan_read refuses files that others may write). Variables other than tables are zero until
 * dlr_state_init. Errors: DL_USAGE (threads, device), DL_RESOURCE (memory, threads, no such
 * device), DL_INPUT (an inconsistent plan, a kernel missing from its object), DL_IO (the system
 * refuses to load code). */
dlr_exec *dlr_exec_open(const dl_plan *plan, dlr_exec_options options, dl_error *err);
void dlr_exec_close(dlr_exec *exec); /* NULL is fine */

/* Runs a program of the plan once, by index; later reads are of this run. It allocates nothing and
 * does not block, except that a device's first run of a program captures it. The same plan and the
 * same memory give the same bits, for any number of threads. launch_ns, if not NULL: nanoseconds of
 * each launch, plan->programs.at[program].launches.n of them. */
void dlr_exec_run(dlr_exec *exec, int program, int64_t *launch_ns);
/* Runs one launch of a program; all of them in order are dlr_exec_run. */
void dlr_exec_run_launch(dlr_exec *exec, int program, int number);

/* Runs one step of a program, launch or collective. All steps in order, with
 * dlr_exec_refresh_copies before the first, are dlr_exec_run. For a caller that steps several ranks
 * in turn. */
void dlr_exec_run_step(dlr_exec *exec, int program, int step);
/* Whether the step can run now without waiting for another rank. */
bool dlr_exec_can_step(const dlr_exec *exec, int program, int step);

/* dlr_exec_run in two halves, for a loop that does not wait for each step: `start` begins a run,
 * and `wait_oldest` waits for the oldest of these runs. From then on losses and metrics
 * (scalar results, by dlr_scalar) are those of that run. At most dlr_exec_ahead runs may be started
 * and not waited for, all of one program. On the CPU that is 1: `start` returns when the run is
 * done. */
void dlr_exec_start(dlr_exec *exec, int program);
void dlr_exec_wait_oldest(dlr_exec *exec);
/* Times the next run, and copies from and to the device before it: `timeline` is complete when that
 * run has been started. The run goes launch by launch, to the same bits; no other run may be under
 * way. */
void dlr_exec_time(dlr_exec *exec, dlr_timeline *timeline);
int dlr_exec_ahead(const dlr_exec *exec);
/* From now on runs go launch by launch, to the same bits, and `seen` is called after each launch.
 * It may read tensors and must write none. NULL: ends this. At most one run may be under way
 * then. */
void dlr_exec_observe(dlr_exec *exec, dlr_seen_fn *seen, void *context);

/* False when the device has failed since it was opened: data read since then are invalid. Errors:
 * DL_RESOURCE, with the device's reason. */
bool dlr_exec_check(const dlr_exec *exec, dl_error *err);
/* With guards: the number of canaries, around arguments, workspaces and scratch, that were found
 * intact. A kernel that wrote into one is the device's fault, DL_INTERNAL with its name. */
int64_t dlr_exec_zones(const dlr_exec *exec);

/* The device's memory use now. False where it has no memory of its own, or failed. */
bool dlr_exec_memory(const dlr_exec *exec, dlr_device_memory *memory);

/* Index of a program, or -1. */
int dlr_exec_program(const dlr_exec *exec, const char *name);

/* Refreshes the copies of written parameters (dlr_exec_host), if there are any. dlr_exec_run
 * does this first; dlr_exec_run_launch does not. */
void dlr_exec_refresh_copies(dlr_exec *exec);

const dlr_ranks *dlr_exec_ranks(const dlr_exec *exec);
/* the options that it was opened with */
const dlr_exec_options *dlr_exec_opened(const dlr_exec *exec);
#endif
