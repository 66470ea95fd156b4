#!/usr/bin/env bash
# Robust rules on HAM10000 in four hospitals, one of which attacks; prints a table for each attack.
set -euo pipefail
raw=${1:?usage: ham10000-attacks.sh RAW [ROUNDS [IMAGES]]: the folder with HAM10000_metadata.csv}
rounds=${2:-20}
data=$(fedcli prepare ham10000 --raw "$raw" --size 32 ${3:+--sample-images "$3"})
data=$(fedcli partition "$data" --by center)
how=(--rounds "$rounds" --batch-size 64 --prior logit-adjust --seeds 3)
for attack in none "sign-flip --strength 3" "backdoor --target df" label-flip; do
    under=$data
    # shellcheck disable=SC2086 # an attack has options
    [ "$attack" = none ] || under=$(fedcli corrupt clients "$data" --kind $attack --on vidir_modern)
    runs=$(fedcli train fedavg median krum multi-krum rfa norm-clipping fltrust "$under" "${how[@]}")
    runs+=$'\n'$(fedcli train trimmed-mean "$under" --set hostile=0 "${how[@]}")
    echo "Attack: $attack"
    # shellcheck disable=SC2086 # a run a word
    fedcli report $runs --by center --by sex --format markdown
done
