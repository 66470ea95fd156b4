#!/usr/bin/env bash
# Fair and robust rules on HAM10000 in four hospitals, one of which attacks; for each attack a table of scores and a CSV of weights.
set -euo pipefail
raw=${1:?usage: ham10000-fair-attacks.sh RAW [ROUNDS]: the folder with HAM10000_metadata.csv}
rounds=${2:-10}
data=$(fedcli prepare ham10000 --raw "$raw" --size 32)
data=$(fedcli partition "$data" --by center --val 0.1)
how=(--model efficientnet-lite0 --weights imagenet --freeze-backbone --batch-size 1024 --lr 0.01 --rounds "$rounds" --seeds 3)
rules=(fedavg qffl afl term fedce fedfv fedga fedheal fedism-plus median norm-clipping dnc centred-clipping)
for attack in none label-flip sign-flip "scale --strength 1000"; do
    under=$data
    # shellcheck disable=SC2086 # an attack has options
    [ "$attack" = none ] || under=$(fedcli corrupt clients "$data" --kind $attack --on vidir_modern)
    runs=$(fedcli train "${rules[@]}" "$under" "${how[@]}")
    runs+=$'\n'$(fedcli train group-dro "$under" --set attribute=age "${how[@]}")
    echo "Attack: $attack"
    # shellcheck disable=SC2086 # a run a word
    fedcli report $runs --by center --by sex --by age --format markdown
    # shellcheck disable=SC2086
    fedcli plot weights $runs --out "weights-${attack%% *}.csv"
done
