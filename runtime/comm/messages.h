/* The engine's interface to MPI: messages between two ranks. The build makes a module with this
 * table (dlr_mpi_NAME.so) for each MPI that it finds, since their binary interfaces differ; dlrun
 * links none. All calls come from one thread, which is MPI's main thread.
 *
 * In addition, collectives in a communicator of the caller's (dlr_mpi_caller), for a program that
 * has MPI already and uses the library. */
#ifndef DLR_MESSAGES_H
#define DLR_MESSAGES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_MPI_SYMBOL "dlr_mpi_table"
enum {
    DLR_MPI_VERSION = 4, /* the version of this table */
    DLR_MPI_TAG = 32767, /* the largest tag that every MPI supports */
    DLR_MPI_CHANNELS = 2 /* messages of one channel never match those of the other */
};

typedef struct {
    int rank, size, local_rank, local_size; /* local: among those of this machine */
} dlr_mpi_place;

typedef struct dlr_mpi_world dlr_mpi_world;
typedef struct {
    /* Copies the communicator that an MPI_Comm * or an MPI_Fint *, Fortran's handle, points to; the
     * other is NULL. Collective. NULL with a line in `error`. */
    dlr_mpi_world *(*open)(const void *mpi_comm, const int *mpi_fint, dlr_mpi_place *place,
                           char *error, size_t room);
    /* `bytes` to each rank, and from each. Blocking; 0, or MPI's error. */
    int (*all_to_all)(dlr_mpi_world *w, const void *from, void *to, int bytes);
    int (*all_gather)(dlr_mpi_world *w, const void *from, void *to, int bytes);
    int (*broadcast)(dlr_mpi_world *w, void *at, int bytes, int root);
    void (*close)(dlr_mpi_world *w); /* collective, before MPI_Finalize */
} dlr_mpi_caller;
extern const dlr_mpi_caller dlr_mpi_of_caller;

typedef struct {
    int version;
    const char *name; /* "Open MPI v4.1.4" */
    /* Initialises MPI; false with a line in `error`. */
    bool (*open)(int *rank, int *size, char *error, size_t room);
    /* Start to send or receive at most 2^30 bytes; poll returns `id` when the message is done. The
     * buffer must stay valid until then. Returns 0, or MPI's error. */
    int (*send)(const void *at, int64_t bytes, int to, int tag, int channel, uint64_t id);
    int (*receive)(void *at, int64_t bytes, int from, int tag, int channel, uint64_t id);
    /* Starts MPI's own sum of `count` f32 (`wide`: f64) over all ranks, in the order that the MPI
     * library chooses; `from` and `to` may be the same. All ranks must start them in one order.
     * poll returns `id`. Returns 0, or MPI's error. */
    int (*sum)(const void *from, void *to, int count, bool wide, uint64_t id);
    /* Returns up to `most` finished messages, each with 0 or MPI's error; the result is their
     * number. */
    int (*poll)(uint64_t *ids, int *errors, int most);
    void (*error_text)(int error, char *text, size_t room);
    /* Ends MPI; every message must be done. */
    void (*close)(void);
    const dlr_mpi_caller *caller;
} dlr_mpi;
typedef const dlr_mpi *dlr_mpi_table_fn(void);

#endif
