/* Selects the backend by the environment. */
#include "runtime/comm/engine.h"

dlr_comm *dlr_comm_open(const dlr_world_options *options, dl_error *err) {
    dlr_world_said said;
    if (!dlr_world_read(&said, err)) return NULL;
    if (said.world.size == 1) return dlr_comm_new(&dlr_comm_self, "self", said.world, NULL);
    if (said.torchrun && options->driver)
        return dlr_comm_nccl_alone(&said.world, options->driver, options->ordinal, options->timeout,
                                   err);
    if (!said.launcher) {
        dl_fail(err, DL_USAGE,
                "%s=%d asks for a world of %d ranks, but nothing that starts MPI programs has "
                "started this "
                "process: start with dlrun -n %d, mpirun -n %d or srun --mpi=pmix (of MPICH "
                "--mpi=pmi2), or "
                "unset %s; "
                "on GPUs torchrun will do",
                said.size_name, said.world.size, said.world.size, said.world.size, said.world.size,
                said.size_name);
        return NULL;
    }
    const dlr_mpi *mpi = dlr_mpi_load(&said, err);
    return mpi ? dlr_engine_open(mpi, &said, options, err) : NULL;
}
