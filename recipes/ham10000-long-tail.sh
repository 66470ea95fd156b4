#!/usr/bin/env bash
# Fed-MAS's Table 1 and FedMRL's Table 1 on HAM10000 at 32 pixels: eight clients by Dirichlet(0.5), then the four hospitals.
set -euo pipefail
raw=${1:?usage: ham10000-long-tail.sh RAW [ROUNDS]: the folder with HAM10000_metadata.csv}
rounds=${2:-20}
pool=$(fedcli prepare isic2018 --raw "$raw" --size 32)
for how in "--dirichlet 0.5 --clients 8" "--by center"; do
    data=$(fedcli partition "$pool" $how --val 0.1)
    runs=()
    for method in fedavg fedprox moon ldam bsm logit-adjust fedlc creff kd fed-mas fednova fedbn fedmrl; do
        runs+=("$(fedcli train "$method" "$data" --rounds "$rounds" --lr 1e-3 --prior none --resume)")
    done
    for method in fedavg bsm fed-mas; do # the same runs, their classifier trained again
        runs+=("$(fedcli train "$method" "$data" --rounds "$rounds" --lr 1e-3 --prior none --resume --then crt)")
    done
    fedcli report "${runs[@]}" --shots 700,150 --minutes --format markdown
done
