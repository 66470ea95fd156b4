#!/usr/bin/env bash
# Three methods on HAM10000 in four hospitals, Gaussian noise on one; prints the table of the README.
set -euo pipefail
raw=${1:?usage: ham10000-hospitals.sh RAW [ROUNDS]: the folder with HAM10000_metadata.csv}
rounds=${2:-60}
data=$(fedcli prepare isic2018 --raw "$raw" --size 32)
data=$(fedcli partition "$data" --by center)
data=$(fedcli corrupt gaussian "$data" --on rosendahl)
runs=()
for method in fedavg fedheal fedism-plus; do
    runs+=("$(fedcli train "$method" "$data" --rounds "$rounds" --lr 1e-3 --prior logit-adjust --threads 1 --resume)")
done
fedcli report "${runs[@]}" --by sex --format markdown
