#!/bin/bash
#SBATCH --job-name=dlrun-sweep
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=32
#SBATCH --time=02:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# An agent of the sweep that `dlrun sweep FILE.yaml ...` made: sbatch examples/slurm/sweep.sh runs/sweeps/ID, as often as you like. Two minutes
# before the limit the trial at work is handed back with a checkpoint, and the job queues again.
set -uo pipefail
dlrun agent "${1:?the directory of the sweep}" & # behind the shell's back, which hears the signal
agent=$!
trap 'kill -USR1 "$agent"' USR1
wait "$agent"
status=$?
if [ $status -gt 128 ]; then # by the signal; the agent ends now
  wait "$agent"
  status=$?
fi
[ $status = 75 ] && exec scontrol requeue "$SLURM_JOB_ID"
exit $status
