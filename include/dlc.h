/* dlc: trained networks in C programs.
 *
 *    dlc_status status = {0};
 *    dlc_model *net = dlc_open("runs/base/1GPU/00", NULL, &status);
 *    if (!net) return fprintf(stderr, "%s\n", status.message), 1;
 *    const void *inputs[] = {x};
 *    void *outputs[] = {y};
 *    if (!dlc_predict(net, samples, inputs, outputs, &status)) ...
 *    dlc_close(net);
 *
 * Build with `cc main.c $(pkg-config --cflags --libs dlc)`. docs/tutorial/use-the-network.md is the
 * guide, docs/reference/c.md the reference.
 *
 * Arrays are dense and row-major. The sample axis is first; dlc_describe returns types and shapes.
 * Values have the units of the training files: the library normalises inputs and undoes it for
 * outputs. dlc_predict, dlc_train_step and dlc_evaluate allocate no memory.
 *
 * Any number of models may be open. One thread at a time may use a model; different threads may use
 * different models. The library never exits, prints or handles signals, and keeps no
 * process-wide state that a caller can observe. Exhausted memory is an error, too: status code 5.
 */
#ifndef DLC_H
#define DLC_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open network: its kernels and memory on one device. */
typedef struct dlc_model dlc_model;

/* The outcome of a call. code: 0 success, 2 wrong use, 3 input (a model, file or array that does
 * not fit), 4 file system, 5 memory, device or compiler, 6 a file that others may write, 7 numbers
 * that are not finite, 8 another rank failed, 70 an internal fault. */
typedef struct {
    int code;
    char message[1024]; /* one sentence, with the remedy where there is one */
} dlc_status;

typedef enum { DLC_INPUT, DLC_TARGET, DLC_OUTPUT, DLC_METRIC, DLC_PARAMETER } dlc_role;
typedef enum { DLC_F32, DLC_F64, DLC_F16, DLC_BF16, DLC_I32, DLC_I64, DLC_BOOL } dlc_dtype;

typedef enum { DLC_LOG_INFO, DLC_LOG_WARNING, DLC_LOG_DIAGNOSTICS } dlc_log_level;

typedef struct {
    size_t size;        /* sizeof(dlc_options); zero everything else for defaults */
    const char *device; /* "cpu", "cuda:0", "auto"; NULL: auto */
    int threads;        /* of a CPU; 0: as many as the process may use */
    int64_t batch;      /* most samples of a call; 0: the configuration's */
    /* "key=value", NULL at the end: configuration keys and the model's arguments */
    const char *const *settings;
    const char *config_file, *config_name; /* of a model file: its configuration; NULL: its own */
    int train;                             /* 1: also for dlc_train_step and dlc_evaluate */
    /* Receives warnings and diagnostics with their places, as whole lines; called during dlc_open
     * only. NULL: they are dropped. */
    void (*log)(void *context, int level, const char *text);
    void *log_context;
    /* MPI_Comm *: the ranks of the communicator train together, each with its own samples; NULL:
     * this process trains alone. dlc_open, dlc_train_step, dlc_evaluate, dlc_save and dlc_close are
     * then collective calls, between MPI_Init and MPI_Finalize; dlc_predict is not collective. CPUs
     * only. */
    const void *mpi_comm;
    int raw;        /* 1: arrays are normalised, as the network itself takes and returns them */
    int refuse_nan; /* 1: an input that is not finite is an error, with its index */
    /* The same as mpi_comm by its Fortran handle, for languages without C's MPI types: MPI_Fint *,
     * from MPI_Comm_c2f, mpi4py's py2f(), or Fortran's integer or type(MPI_Comm). */
    const int *mpi_fint;
    /* A plan's file (`dlc compile -o X.dlp`), whose programs are used: nothing is compiled, and no
     * compiler need be there. They take one sample, or the batch that they were compiled for where
     * `batch` allows it; training is refused. The path is then a run, a checkpoint, or, with raw =
     * 1, a file of weights. NULL: compiled; where nothing compiles, the kernels that the run has
     * kept (keep_kernels). */
    const char *plan;
} dlc_options;

enum { DLC_MAX_RANK = 8 };
typedef struct {
    const char *name; /* of a parameter PyTorch's: "layers.0.weight" */
    dlc_dtype dtype;
    int rank;
    int64_t shape[DLC_MAX_RANK];    /* of arrays with samples: their most, first */
    const char *axis[DLC_MAX_RANK]; /* "N", "C", "H", ... */
} dlc_tensor;

/* Opens a run's directory, a checkpoint, or a model file (.dl, with initial weights). options: NULL
 * for defaults. Compiles the network unless its kernels are in the cache. NULL: failed, see the
 * status. */
dlc_model *dlc_open(const char *path, const dlc_options *options, dlc_status *status);
void dlc_close(dlc_model *model); /* NULL is fine; no call may use the model afterwards */

/* The number of inputs, targets, outputs, metrics or parameters. */
int dlc_count(const dlc_model *model, dlc_role role);
/* Describes number `index` of them, from 0; its texts live as long as the model. An output that the
 * model gives without N is one of each sample, [N, ...]. Returns 0 where the index is out of range.
 */
int dlc_describe(const dlc_model *model, dlc_role role, int index, dlc_tensor *out);
/* The network's memory on its device in bytes: weights, state, activations. */
int64_t dlc_memory(const dlc_model *model);

/* The functions below return 1 on success. Otherwise they return 0 and set the status, and nothing
 * was done in part. */

/* Predicts `samples` samples: inputs[i] and outputs[k] in the order of dlc_describe. NULL is
 * allowed for an input that only the loss reads. Each sample is predicted by itself; of a model
 * that relates the samples of a batch and trains, or fixes its batch, whole batches are. */
int dlc_predict(dlc_model *model, int64_t samples, const void *const inputs[],
                void *const outputs[], dlc_status *status);
/* One optimiser step on exactly one batch, or on as many as the key `accumulate` says, one after
 * the other: the arrays of the inputs, then of the targets. *loss: the loss before the step; may be
 * NULL. */
int dlc_train_step(dlc_model *model, int64_t samples, const void *const inputs_then_targets[],
                   double *loss, dlc_status *status);
/* The mean loss and metrics over `samples` samples, a multiple of the batch; metrics in the order
 * of dlc_describe. Both may be NULL. */
int dlc_evaluate(dlc_model *model, int64_t samples, const void *const inputs_then_targets[],
                 double *loss, double metrics[], dlc_status *status);
/* Copies a parameter or running statistic to or from the caller, in PyTorch's shape and order, as
 * dlc_describe returns it; `bytes` must be its size in bytes. */
int dlc_get(dlc_model *model, const char *name, void *to, size_t bytes, dlc_status *status);
int dlc_set(dlc_model *model, const char *name, const void *from, size_t bytes, dlc_status *status);
/* Writes a checkpoint into the run's directory `directory`, which is created if absent. dlc_open,
 * `dlrun predict` and `dlrun --resume` accept it. The model must be open for training. */
int dlc_save(dlc_model *model, const char *directory, dlc_status *status);

/* The library's version, "0.1.0". */
const char *dlc_version(void);

#ifdef __cplusplus
}
#endif
#endif
