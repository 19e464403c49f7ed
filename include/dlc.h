/* dlc: trained networks in programs of your own.
 *
 *     dlc_status status = {0};
 *     dlc_model *net = dlc_open("runs/base/1GPU/00", NULL, &status);
 *     if (!net) return fprintf(stderr, "%s\n", status.message), 1;
 *     const void *inputs[] = {x};
 *     void *outputs[] = {y};
 *     if (!dlc_predict(net, samples, inputs, outputs, &status)) ...
 *     dlc_close(net);
 *
 * Build with `cc main.c $(pkg-config --cflags --libs dlc)`. docs/guide/use-the-network.md tells
 * more.
 *
 * Arrays are dense and row-major, the sample axis first, in the types that dlc_describe says.
 * Numbers are those of the files that the network was trained on: normalisation is inside. A call
 * of dlc_predict, dlc_train_step or dlc_evaluate allocates nothing.
 *
 * Any number of models may be open. One thread at a time uses a model; different threads may use
 * different models. The library never exits, prints or handles signals, and keeps no state that a
 * caller meets. A lack of memory is a status. */
#ifndef DLC_H
#define DLC_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A network on a device, ready to run. */
typedef struct dlc_model dlc_model;

/* The outcome of a call. code: 0 done, 2 usage, 3 input (a model, file or array that does not fit),
 * 4 files, 5 memory, device or compiler, 6 a file that others may write, 7 numbers that are not
 * finite, 8 another rank, 70 a fault of the library. */
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
    int64_t batch;      /* samples a call takes at most; 0: the configuration's */
    /* "key=value", NULL at the end: configuration keys and the model's arguments */
    const char *const *settings;
    const char *config_file, *config_name; /* of a model file: its configuration; NULL: its own */
    int train;                             /* 1: dlc_train_step and dlc_evaluate are there, too */
    /* Warnings and located diagnostics, as whole lines; called within dlc_open alone. NULL:
     * dropped. */
    void (*log)(void *context, int level, const char *text);
    void *log_context;
    /* MPI_Comm *: its ranks train together, each on samples of its own; NULL: this process alone.
     * dlc_open, dlc_train_step, dlc_evaluate, dlc_save and dlc_close are then collective, between
     * MPI_Init and MPI_Finalize; dlc_predict is this rank's alone. CPUs only. */
    const void *mpi_comm;
    int raw;        /* 1: arrays are what the network itself takes and gives, normalised */
    int refuse_nan; /* 1: an input that is not finite is an error, with its index */
    /* As mpi_comm, by Fortran's handle, which languages without C's types have: MPI_Fint *, of
     * MPI_Comm_c2f, of mpi4py's py2f(), or of an integer or type(MPI_Comm) of Fortran. */
    const int *mpi_fint;
} dlc_options;

enum { DLC_MAX_RANK = 8 };
typedef struct {
    const char *name; /* of a parameter PyTorch's: "layers.0.weight" */
    dlc_dtype dtype;
    int rank;
    int64_t shape[DLC_MAX_RANK];    /* of arrays with samples: their most, first */
    const char *axis[DLC_MAX_RANK]; /* "N", "C", "H", ... */
} dlc_tensor;

/* Opens a run's directory, a checkpoint of it, or a model file (.dl, with fresh weights). `options`
 * NULL: all defaults. Compiles the network unless the cache of kernels has it. NULL: the status
 * says why. */
dlc_model *dlc_open(const char *path, const dlc_options *options, dlc_status *status);
void dlc_close(dlc_model *model); /* NULL is fine; no call may use the model afterwards */

/* How many inputs, targets, outputs, metrics or parameters there are. */
int dlc_count(const dlc_model *model, dlc_role role);
/* Describes the index-th of them; its texts live as long as the model. 0: there is no such. */
int dlc_describe(const dlc_model *model, dlc_role role, int index, dlc_tensor *out);
/* Bytes of the network's memory on its device: weights, state, activations. */
int64_t dlc_memory(const dlc_model *model);

/* The functions below return 1 when they are done, else 0: the status says why, and nothing is
 * half done. */

/* Predicts `samples` samples: inputs[i] and outputs[k] in the order of dlc_describe. An input that
 * only the loss reads may be NULL. */
int dlc_predict(dlc_model *model, int64_t samples, const void *const inputs[],
                void *const outputs[], dlc_status *status);
/* One step of the optimiser on exactly as many samples as the batch: arrays of the inputs, then of
 * the targets. *loss (NULL: not wanted): the loss before the step. */
int dlc_train_step(dlc_model *model, int64_t samples, const void *const inputs_then_targets[],
                   double *loss, dlc_status *status);
/* Mean loss and metrics (in the order of dlc_describe; NULL: not wanted) of a multiple of the
 * batch. */
int dlc_evaluate(dlc_model *model, int64_t samples, const void *const inputs_then_targets[],
                 double *loss, double metrics[], dlc_status *status);
/* Copies a parameter or running statistic, in the shape and order of PyTorch, as dlc_describe has
 * it; `bytes` must be its size. */
int dlc_get(dlc_model *model, const char *name, void *to, size_t bytes, dlc_status *status);
int dlc_set(dlc_model *model, const char *name, const void *from, size_t bytes, dlc_status *status);
/* Writes a checkpoint into the run's directory `directory` (made if absent), which dlc_open,
 * `dlrun predict` and `dlrun --resume` take. The model must be open for training. */
int dlc_save(dlc_model *model, const char *directory, dlc_status *status);

/* "0.1.0" */
const char *dlc_version(void);

#ifdef __cplusplus
}
#endif
#endif
