/* The executor: loads a plan's kernels, maps its memory, and replays its programs. */
#ifndef DLR_EXEC_H
#define DLR_EXEC_H
#include "ir/plan.h"
#include "runtime/pool.h"

typedef struct dlr_exec dlr_exec;

/* A tensor in the arena. */
typedef struct {
    const dl_type *type; /* with the layout it is stored in; NULL: there is no such tensor */
    void *data;
} dlr_view;

/* Loads and resolves every kernel, maps arena, workspace and scratch (dl_plan_peak bytes, zeroed), starts
 * `threads` threads (0: one a CPU). The plan must outlive the executor, and is trusted: its objects are
 * machine code, which runs in this process (dl_plan_read refuses files that others may write). Variables are
 * zero until dlr_state_init, but tables hold their numbers. Errors: DL_USAGE (threads), DL_RESOURCE (memory,
 * threads), DL_INPUT (a plan that does not hold together, a kernel missing from its object), DL_IO (the
 * system refuses to load code). */
dlr_exec *dlr_exec_open(const dl_plan *plan, int threads, dl_error *err);
void dlr_exec_close(dlr_exec *exec); /* NULL is fine */

/* Runs a program of the plan once, by index, and returns when it is done. Allocates nothing and calls nothing
 * that waits. Same plan and same memory before: same bits after, for any number of threads. launch_ns, if not
 * NULL: nanoseconds of each launch, plan->programs.at[program].launches.n of them. */
void dlr_exec_run(dlr_exec *exec, int program, int64_t *launch_ns);
/* Runs one launch of a program; all of them in order are dlr_exec_run. */
void dlr_exec_run_launch(dlr_exec *exec, int program, int number);
/* Index of a program, or -1. */
int dlr_exec_program(const dlr_exec *exec, const char *name);

dlr_view dlr_exec_variable(const dlr_exec *exec, const char *name);
/* A program's result; holds its value from the end of a run of that program to the next run of any. name
 * NULL: the first of this role. */
dlr_view dlr_exec_result(const dlr_exec *exec, int program, dl_result_role role, const char *name);

/* Says that the host has written the tensor that begins at `data` (dlr_state_write does): where it is a
 * parameter that the plan keeps in another type, too (DL_VAR_COPY), all such copies are made anew before the
 * next run. */
void dlr_exec_written(dlr_exec *exec, const void *data);

const dl_plan *dlr_exec_plan(const dlr_exec *exec);
dlr_pool *dlr_exec_pool(const dlr_exec *exec); /* for the host's own loops between runs */
char *dlr_exec_arena(const dlr_exec *exec);    /* plan->arena_bytes bytes */
#endif
