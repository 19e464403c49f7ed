/* Which rank of how many this process is, as whoever started it says in the environment. */
#ifndef DLR_WORLD_H
#define DLR_WORLD_H
#include "ir/base/status.h"

typedef struct {
    int rank, size;
    int local_rank, local_size; /* among the ranks of this machine */
} dlr_world;

/* What the environment says, and in which words. */
typedef struct {
    dlr_world world;       /* local_size 0: not said */
    const char *size_name; /* "OMPI_COMM_WORLD_SIZE"; NULL: nothing is said, and this process is alone */
    const char *launcher;  /* a variable that only an MPI launcher or srun sets, here "OMPI_COMM_WORLD_SIZE";
                              NULL: none */
    bool torchrun; /* they meet at MASTER_ADDR, by torchrun, or by what else sets it and is none of MPI's */
} dlr_world_said;

/* Reads torchrun's RANK and WORLD_SIZE, Slurm's, Open MPI's, PMI's variables, in this order; none: one
 * process. A batch script of Slurm (SLURM_NTASKS without a step of srun) is no rank. Errors: DL_USAGE, naming
 * the variable: no number, a rank outside the world, or two launchers that contradict each other. */
bool dlr_world_read(dlr_world_said *said, dl_error *err);
#endif
