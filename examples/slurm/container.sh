#!/bin/bash
#SBATCH --job-name=dlrun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=16
#SBATCH --time=12:00:00
# The image holds dlrun, a C compiler and an MPI of the family that --mpi serves.
set -euo pipefail
image=${DLRUN_IMAGE:?the Apptainer image: DLRUN_IMAGE=dlc.sif sbatch examples/slurm/container.sh}
srun --mpi="${DLRUN_PMI:-pmix}" --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 \
  apptainer exec --bind "$PWD" "$image" \
  dlrun models/vit.dl --config base --threads="$SLURM_CPUS_PER_TASK" "$@"
