#!/usr/bin/env bash
# Makes one table with an array of SLURM jobs, each of which plays a part of its cells; the last one writes the table.
#
#     sbatch --array=1-8 examples/reproduce-slurm.sh fedism-plus-table2 --raw kaggle --device cuda
#
# The folder in which sbatch is called, the data and the environment must be on a file system that all nodes share. A job
# whose time was up, or whose node failed, goes on where it stopped when the same line is given again.
#SBATCH --job-name=fedcli
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
#SBATCH --requeue
set -euo pipefail

: "${SLURM_ARRAY_TASK_ID:?start this with sbatch --array=1-8}"
part=$((SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN + 1))
exec fedcli reproduce "$@" --cells "$part/$SLURM_ARRAY_TASK_COUNT"
