#!/bin/bash
#SBATCH --job-name=dlrun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
# A rank for each GPU: MPI between the hosts, NCCL between the GPUs. A rank takes the GPU of its number on the node.
set -euo pipefail
srun --mpi="${DLRUN_PMI:-pmix}" --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 \
  dlrun models/vit.dl --config base --device=cuda --amp_mode=bf16 --threads="$SLURM_CPUS_PER_TASK" "$@"
