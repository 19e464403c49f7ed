#!/bin/bash
#SBATCH --job-name=dlrun
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=16
#SBATCH --time=12:00:00
# A rank a task. --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH: `srun --mpi=list` says what is there.
set -euo pipefail
srun --mpi="${DLRUN_PMI:-pmix}" --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 \
  dlrun models/vit.dl --config base --threads="$SLURM_CPUS_PER_TASK" "$@"
