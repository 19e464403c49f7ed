/* This process' rank and the number of ranks, read from the launcher's environment variables. */
#ifndef DLR_WORLD_H
#define DLR_WORLD_H
#include "ir/base/status.h"

typedef struct {
    int rank, size;
    int local_rank, local_size; /* rank and count among the ranks of this machine */
} dlr_world;

/* The world that the environment describes, and the variables that it was read from. */
typedef struct {
    dlr_world world;       /* local_size 0: unknown */
    const char *size_name; /* "OMPI_COMM_WORLD_SIZE"; NULL: no variable is set, and this process is
                              alone */
    const char *launcher;  /* a variable that only an MPI launcher or srun sets, here
                              "OMPI_COMM_WORLD_SIZE"; NULL: none */
    bool torchrun; /* ranks connect to MASTER_ADDR: started by torchrun, or by another launcher that
                      sets it without MPI */
} dlr_world_said;

/* Reads the variables of torchrun (RANK and WORLD_SIZE), Slurm, Open MPI and PMI, in this order;
 * none: one process. A Slurm batch script (SLURM_NTASKS without a step of srun) is no rank. Errors:
 * DL_USAGE, with the variable's name: not a number, a rank outside the world, or two launchers that
 * contradict each other. */
bool dlr_world_read(dlr_world_said *said, dl_error *err);
#endif
