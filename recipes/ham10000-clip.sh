#!/usr/bin/env bash
# The comparison of FairLoRA's paper at a small size: a tiny random CLIP on HAM10000 in its four hospitals, sex as the group.
set -euo pipefail
raw=${1:?usage: ham10000-clip.sh RAW [ROUNDS]: the folder with HAM10000_metadata.csv}
rounds=${2:-20}
pool=$(fedcli prepare isic2018 --raw "$raw" --size 32)
data=$(fedcli partition "$pool" --by center)
common=(--model clip-tiny --rounds "$rounds" --optimizer adam --lr 1e-3 --resume)
runs=("$(fedcli train fedavg "$data" "${common[@]}" --single-site)")
for method in fedavg fedheal promptfl fedotp lora svd-lora "fairlora --set attribute=sex"; do
    runs+=("$(fedcli train $method "$data" "${common[@]}")")
done
fedcli report "${runs[@]}" --by sex --minutes --bytes --format markdown
