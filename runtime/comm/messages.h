/* The engine's interface to MPI: messages between two ranks. The build makes a module with this
 * table (dlr_mpi_NAME.so) for each MPI that it finds, since their binary interfaces differ; dlrun
 * links none. All calls come from one thread, which is MPI's main thread. */
#ifndef DLR_MESSAGES_H
#define DLR_MESSAGES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_MPI_SYMBOL "dlr_mpi_table"
enum {
    DLR_MPI_VERSION = 1, /* the version of this table */
    DLR_MPI_TAG = 32767, /* the largest tag that every MPI supports */
    DLR_MPI_CHANNELS = 2 /* messages of one channel never match those of the other */
};

typedef struct {
    int version;
    const char *name; /* "Open MPI v4.1.4" */
    /* Initialises MPI; false with a line in `error`. */
    bool (*open)(int *rank, int *size, char *error, size_t room);
    /* Start to send or receive at most 2^30 bytes; poll returns `id` when the message is done. The
     * buffer must stay valid until then. Returns 0, or MPI's error. */
    int (*send)(const void *at, int64_t bytes, int to, int tag, int channel, uint64_t id);
    int (*receive)(void *at, int64_t bytes, int from, int tag, int channel, uint64_t id);
    /* Returns up to `most` finished messages, each with 0 or MPI's error; the result is their
     * number. */
    int (*poll)(uint64_t *ids, int *errors, int most);
    void (*error_text)(int error, char *text, size_t room);
    /* Ends MPI; every message must be done. */
    void (*close)(void);
} dlr_mpi;
typedef const dlr_mpi *dlr_mpi_table_fn(void);

#endif
