/* The plan's tensors by name, for reading and writing files of tensors: weights, optimizer state,
 * gradients. Files have PyTorch's names and layouts; the plan's own layouts are converted both
 * ways. */
#ifndef DLR_TENSORS_H
#define DLR_TENSORS_H
#include "runtime/exec/exec.h"
#include "runtime/formats/stored.h"

typedef struct {
    dlr_exec *exec;
    dlr_st_tensor *list; /* without data */
    dlr_view *views;     /* their places in the executor; one per tensor */
    int n;
    int64_t *first; /* the row-major element of the view at which each begins; NULL: each is all of
                       its view */
} dlr_tensors;

/* The owner of a variable that persists between runs. */
typedef enum {
    DLR_OF_NOBODY = 0,
    DLR_OF_PARAMETERS = 1,
    DLR_OF_BUFFERS = 2, /* running statistics: each rank has those of its own samples */
    DLR_OF_OPTIMIZER = 4,
    DLR_OF_SCALER = 8,
    DLR_OF_AVERAGE = 16 /* a mean of a parameter */
} dlr_owner;
dlr_owner dlr_tensors_owner(const dl_plan_var *variable);

/* Whether a variable persists between runs: it belongs to the model, the optimizer or the loss
 * scaler. */
bool dlr_tensors_keeps(const dl_plan_var *variable);

/* A model's parameters and buffers (running statistics). */
dlr_tensors dlr_tensors_of_model(dl_arena *arena, dlr_exec *exec);
/* A model's buffers alone, which a step changes in addition to the optimizer's updates. */
dlr_tensors dlr_tensors_of_buffers(dl_arena *arena, dlr_exec *exec);
/* The optimizer's state: its step count and the moments of each parameter. */
dlr_tensors dlr_tensors_of_optimizer(dl_arena *arena, dlr_exec *exec);
/* The loss scaler's state; none where the plan has no scaler. */
dlr_tensors dlr_tensors_of_scaler(dl_arena *arena, dlr_exec *exec);
/* The model with the means of its parameters in their place, under the parameters' names; none
 * where the plan keeps no means. */
dlr_tensors dlr_tensors_of_average(dl_arena *arena, dlr_exec *exec);
/* Sets the means to the parameters as they are. */
void dlr_tensors_begin_average(dlr_exec *exec);
/* The gradients that a program stores, under their parameters' names; none unless the plan was
 * compiled to keep them. */
dlr_tensors dlr_tensors_of_gradients(dl_arena *arena, dlr_exec *exec, int program);

/* The content of a file for dlr_st_write and checkpoints: each tensor is read when the writer asks
 * for it. `tensors` must outlive it. */
dlr_st_content dlr_tensors_content(const dlr_tensors *tensors);
/* Gathers sharded tensors into whole ones, in the arena. All ranks of each shard's group must call
 * it, and each gets the whole tensors. Other tensors stay as they are. Errors: DL_PEER. */
bool dlr_tensors_gather(dl_arena *arena, dlr_tensors *tensors, dl_error *err);
/* Takes part in dlr_tensors_gather for another rank's sake: it holds one whole tensor at a time,
 * and none at the end. */
bool dlr_tensors_help_gather(dlr_tensors *tensors, dl_error *err);
/* Makes the sharded tensors of `to` borrow the whole ones that dlr_tensors_gather made in `from`.
 */
void dlr_tensors_borrow(const dlr_tensors *from, dlr_tensors *to);
/* Loads all tensors of a file. If the file does not hold exactly these tensors, it loads none.
 * Errors: DL_INPUT listing which are missing, unknown or of another shape; DL_IO; DL_RESOURCE. */
bool dlr_tensors_load(const dlr_tensors *tensors, const dlr_st_file *file, dl_error *err);

/* The same for a file of another program: a norm's batch counts (num_batches_tracked) may be
 * missing, as files of older versions of PyTorch leave them out. */
bool dlr_tensors_load_model(const dlr_tensors *model, const dlr_st_file *file, dl_error *err);
/* State that a file of weights may omit, as older versions of PyTorch do: it keeps its initial
 * value. */
bool dlr_tensors_may_lack(const char *name);
/* Opens `path` (weights.h), loads as dlr_tensors_load_model, closes. */
bool dlr_tensors_load_file(const dlr_tensors *tensors, const char *path, dl_error *err);

/* The same of a file that need not be of this model: loads the tensors that both have, of the same
 * shape and of types that convert, and lists in the arena what differs. *taken: how many it loaded.
 * Errors: DL_INPUT where it is none; DL_IO; DL_RESOURCE. */
bool dlr_tensors_load_shared(dl_arena *arena, const dlr_tensors *tensors, const char *path,
                             dlr_differences *others, int *taken, dl_error *err);

/* Whether a file's tensor type converts to the wanted type: the same type, any float to any float,
 * any whole number to any whole number. */
bool dlr_tensors_loads(dlr_st_dtype have, dl_dtype want);
/* Loads one tensor of a file. It is copied as it is, or converted from another float or whole
 * number type through a buffer of DLR_ST_PIECE bytes. Errors: DL_IO; DL_INPUT for types that do not
 * convert, and for numbers outside i32 where i32 is wanted. */
bool dlr_tensor_load(dlr_exec *exec, dlr_view view, const dlr_st_file *file,
                     const dlr_st_tensor *tensor, void *buffer, dl_error *err);

/* The corresponding element type of files of tensors (stored.h). */
dlr_st_dtype dlr_tensors_dtype(dl_dtype dtype);
/* The value of a scalar result or variable. */
double dlr_scalar(const dlr_exec *exec, dlr_view view);
#endif
