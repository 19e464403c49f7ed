#!/bin/bash
#SBATCH --job-name=dlrun
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=32
#SBATCH --time=04:00:00
# One task of Slurm, which starts four ranks of eight threads each.
set -euo pipefail
dlrun -n 4 models/vit.dl --config base --threads=8 "$@"
