#!/bin/bash
#SBATCH --job-name=dlrun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=16
#SBATCH --time=02:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the limit every rank gets SIGUSR1; they stop behind the same step with a checkpoint and exit status 75. --resume
# begins a run where there is none yet.
set -uo pipefail
srun --mpi="${DLRUN_PMI:-pmix}" --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  dlrun models/vit.dl --config base --threads="$SLURM_CPUS_PER_TASK" --resume "$@"
status=$?
[ $status = 75 ] && exec scontrol requeue "$SLURM_JOB_ID"
exit $status
