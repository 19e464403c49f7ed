/* The plan's tensors under their names, on the way to and from files of tensors: weights, optimiser
 * state, gradients. Files hold PyTorch's names and layouts; the plan's own layouts are undone and
 * redone on the way. */
#ifndef DLR_TENSORS_H
#define DLR_TENSORS_H
#include "runtime/exec/exec.h"
#include "runtime/formats/stored.h"

typedef struct {
    dlr_exec *exec;
    dlr_st_tensor *list; /* without data */
    dlr_view *views;     /* where they are; one a tensor */
    int n;
    int64_t *first; /* the element of the view that each begins at, row-major; NULL: each is all of
                       it */
} dlr_tensors;

/* The owner of a variable that outlives a run. */
typedef enum {
    DLR_OF_NOBODY = 0,
    DLR_OF_PARAMETERS = 1,
    DLR_OF_BUFFERS = 2, /* running statistics: of several ranks each has those of its own samples */
    DLR_OF_OPTIMIZER = 4,
    DLR_OF_SCALER = 8
} dlr_owner;
dlr_owner dlr_tensors_owner(const dl_plan_var *variable);

/* Whether a variable is the model's, the optimiser's or the loss scaler's: what outlives a run. */
bool dlr_tensors_keeps(const dl_plan_var *variable);

/* A model's parameters, and its own state (running statistics). */
dlr_tensors dlr_tensors_of_model(dl_arena *arena, dlr_exec *exec);
/* Its own state alone, which a step changes in addition to the optimiser's updates. */
dlr_tensors dlr_tensors_of_buffers(dl_arena *arena, dlr_exec *exec);
/* The optimiser's state: its step count and the moments of each parameter. */
dlr_tensors dlr_tensors_of_optimizer(dl_arena *arena, dlr_exec *exec);
/* The loss scaler's state; none where the plan has no scaler. */
dlr_tensors dlr_tensors_of_scaler(dl_arena *arena, dlr_exec *exec);
/* The gradients that a program leaves, under their parameters' names; none unless the plan was
 * compiled to keep them. */
dlr_tensors dlr_tensors_of_gradients(dl_arena *arena, dlr_exec *exec, int program);

/* For dlr_st_write and checkpoints: reads each tensor when it is asked for. `tensors` must outlive
 * it. */
dlr_st_content dlr_tensors_content(const dlr_tensors *tensors);
/* Gathers tensors that ranks hold in pieces into whole ones, in the arena: all ranks of each
 * piece's group call it, and each has them then. Others stay where they are. Errors: DL_PEER. */
bool dlr_tensors_gather(dl_arena *arena, dlr_tensors *tensors, dl_error *err);
/* Takes part in that for another rank's sake: holds one whole tensor at a time, and none at the
 * end. */
bool dlr_tensors_help_gather(dlr_tensors *tensors, dl_error *err);
/* Gives tensors that are pieces the whole ones that the same in `from` have been made. */
void dlr_tensors_lend(const dlr_tensors *from, dlr_tensors *to);
/* Puts a file's tensors into their places: all or, when the file does not hold exactly these, none.
 * Errors: DL_INPUT listing what is missing, too much or of another shape; DL_IO; DL_RESOURCE. */
bool dlr_tensors_load(const dlr_tensors *tensors, const dlr_st_file *file, dl_error *err);

/* The same of a file that other programs wrote: counts of batches that a norm has seen
 * (num_batches_tracked) may be missing there, as PyTorch's older ones leave them out. */
bool dlr_tensors_load_model(const dlr_tensors *model, const dlr_st_file *file, dl_error *err);
/* State that a file of weights may leave out, as PyTorch's older ones do: it stays as it begins. */
bool dlr_tensors_may_lack(const char *name);
/* Opens `path` (weights.h), loads as dlr_tensors_load_model, closes. */
bool dlr_tensors_load_file(const dlr_tensors *tensors, const char *path, dl_error *err);

/* May a tensor of a file be read as this? Its own type; any float as any, any whole number as
 * any. */
bool dlr_tensors_loads(dlr_st_dtype have, dl_dtype want);
/* One tensor of a file into its place: as it is, or from one float or whole number type into
 * another, by way of a buffer of DLR_ST_PIECE bytes. Errors: DL_IO; DL_INPUT for types that do not
 * convert, and for numbers that are no i32 where that is wanted. */
bool dlr_tensor_load(dlr_exec *exec, dlr_view view, const dlr_st_file *file,
                     const dlr_st_tensor *tensor, void *buffer, dl_error *err);

/* The element type of files of tensors (stored.h) that is this one. */
dlr_st_dtype dlr_tensors_dtype(dl_dtype dtype);
/* A scalar result or variable. */
double dlr_scalar(const dlr_exec *exec, dlr_view view);
#endif
