/* The tensors of an executor: their places in the device's memory, and the host's access to them.
 * exec.h opens an executor and runs programs. */
#ifndef DLR_EXEC_TENSORS_H
#define DLR_EXEC_TENSORS_H
#include "ir/plan/plan.h"
#include "runtime/base/pool.h"
#include "runtime/device/device.h"

typedef struct dlr_exec dlr_exec;

/* A tensor in the arena. */
typedef struct {
    const dl_type *type;       /* with the layout it is stored in; NULL: there is no such tensor */
    int64_t offset;            /* bytes from the arena's start */
    const dl_var_piece *piece; /* the shard of a whole tensor that it is; NULL: the whole */
} dlr_view;

dlr_view dlr_exec_variable(const dlr_exec *exec, const char *name);
/* The optimizer's state of a parameter under that name ("exp_avg"); no type: there is none. */
dlr_view dlr_exec_state(const dlr_exec *exec, const char *what, const char *param);
/* A program's result; its value is valid from the end of a run of that program to the next run of
 * any program. name NULL: the first of this role. */
dlr_view dlr_exec_result(const dlr_exec *exec, int program, dl_result_role role, const char *name);

/* The host's view of a stored tensor: dlr_device_table.host. After a write to a parameter, its
 * copies in other types (DL_VAR_COPY) are refreshed and prepared weights (ir/plan/plan.h) prepared
 * again, before or in the next run. */
void *dlr_exec_host(const dlr_exec *exec, dlr_view view, dlr_access access);
/* Whether the device can gather inputs from a batch in the form of its files
 * (dlr_device_table.input_gather), and where the host puts such a batch of `batch` bytes for that
 * input. */
bool dlr_exec_gathers(const dlr_exec *exec);
void *dlr_exec_input_gather(const dlr_exec *exec, dlr_view view, int64_t batch, void *there);
/* dlr_device_table.allocate_dataset and .upload, where the device gathers inputs. */
bool dlr_exec_allocate_dataset(const dlr_exec *exec, int64_t bytes, dl_error *err);
void dlr_exec_upload(const dlr_exec *exec, int64_t at, const void *from, int64_t bytes);
bool dlr_exec_pin(const dlr_exec *exec, void *memory, int64_t bytes, dl_error *err);
void dlr_exec_unpin(const dlr_exec *exec, void *memory);
void dlr_exec_wait_staged(const dlr_exec *exec);
/* A scalar result's bytes, of the run last taken. */
const void *dlr_exec_scalar(const dlr_exec *exec, dlr_view view);

const dl_plan *dlr_exec_plan(const dlr_exec *exec);
dlr_pool *dlr_exec_pool(const dlr_exec *exec); /* for the host's own loops between runs */
/* The arena, plan->arena_bytes bytes, where it is the host's own memory; otherwise NULL. */
char *dlr_exec_arena(const dlr_exec *exec);
/* A tensor's data there, to be read: NULL without a type, or where the arena is not the host's
 * memory. */
void *dlr_exec_data(const dlr_exec *exec, dlr_view view);
#endif
