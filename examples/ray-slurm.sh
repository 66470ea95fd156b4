#!/usr/bin/env bash
# Trains on the nodes of a SLURM job: starts a ray cluster on them, runs `fedcli train`, and ends with it. Begun again with
# the same words after the time was up or a node failed, it goes on where it stopped.
#
#     sbatch --nodes 4 examples/ray-slurm.sh fedheal partition.json --rounds 200
#
# The folder in which sbatch is called, the data and the environment must be on a file system that all nodes share.
#SBATCH --job-name=fedcli
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
set -euo pipefail

: "${SLURM_JOB_NODELIST:?start this with sbatch}"
export OMP_NUM_THREADS=1 RAY_USAGE_STATS_ENABLED=0
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT # the nodes of the cluster
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
port=$((20000 + SLURM_JOB_ID % 20000))
export RAY_ADDRESS=${nodes[0]}:$port
cpus=${SLURM_CPUS_PER_TASK:-1}
gpus=${SLURM_GPUS_ON_NODE:-0}
folder=/tmp/ray-$SLURM_JOB_ID # on each node; sockets want a short name

srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" --overlap env -u RAY_ADDRESS ray start --head --port="$port" \
    --num-cpus="$cpus" --num-gpus="$gpus" --include-dashboard=false --temp-dir="$folder" --block &
until ray status > /dev/null 2>&1; do sleep 2; done
if [ "${#nodes[@]}" -gt 1 ]; then
    others=$(IFS=,; echo "${nodes[*]:1}")
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --nodelist="$others" --overlap \
        ray start --address="$RAY_ADDRESS" --num-cpus="$cpus" --num-gpus="$gpus" --block &
fi
python - "${#nodes[@]}" << 'PYTHON'
import sys, time
import ray

ray.init(logging_level="ERROR", log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]):
    time.sleep(1)
PYTHON
fedcli train "$@" --engine ray --resume
