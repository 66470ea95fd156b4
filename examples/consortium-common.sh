# shellcheck shell=bash
# What both consortium scripts share: processes that end with the script, two hospitals' images, and the comparison.
# Sourced by consortium-nvflare.sh and consortium-flower.sh; it starts nothing by itself.
set -euo pipefail

ROUNDS=${ROUNDS:-4}
LIMIT=${LIMIT:-1800} # seconds for everything
if [ -z "${BOUNDED:-}" ]; then
    BOUNDED=1 exec timeout --kill-after=30 "$LIMIT" bash "$0" "$@"
fi
export OMP_NUM_THREADS=1
place=$(mktemp -d /tmp/consortium.XXXXXX)
started=()

start() { # NAME COMMAND...: in the background, in a process group of its own; its words are in NAME.log
    local name=$1
    shift
    setsid "$@" >> "$place/$name.log" 2>&1 < /dev/null &
    started+=($!)
    printf '%s' $! > "$place/$name.pid"
}

kill_now() { # NAME: kill -9 of it and of what it started
    kill -9 -- "-$(cat "$place/$1.pid")"
}

finish() {
    local code=$?
    trap - EXIT
    set +e
    [ "$code" -eq 0 ] || tail -n 5 "$place"/*.log >&2 || true
    for pid in "${started[@]}"; do kill -- "-$pid" 2> /dev/null || true; done
    sleep 2
    for pid in "${started[@]}"; do kill -9 -- "-$pid" 2> /dev/null || true; done
    # a job of NVFlare leaves the group of what started it; its command line names our folder
    for pid in $(ps -eo pid=,args= | grep -F "$place/" | grep -v grep | awk '{print $1}'); do
        kill -9 "$pid" 2> /dev/null || true
    done
    rm -rf "$place"
    exit "$code"
}
trap finish EXIT

wait_for() { # SECONDS COMMAND...: until it succeeds
    local end=$(($(date +%s) + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        [ "$(date +%s)" -lt "$end" ] || { echo "gave up waiting for: $*" >&2; return 1; }
        sleep 0.5
    done
}

two_hospitals() { # RAW OUT: the first images of two hospitals of HAM10000, in the layout of the whole
    python - "$1" "$2" "${IMAGES:-120}" << 'PYTHON'
import csv, sys
from pathlib import Path

raw, out, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
(out / "images").mkdir(parents=True)
rows = list(csv.DictReader((raw / "ham10000_fedisic2019.csv").open()))
hospitals = [[row for row in rows if row["dataset"] == name][:count] for name in ("rosendahl", "vidir_modern")]
kept = {row["image_id"] for hospital in hospitals for row in hospital}
for name in ("ham10000_fedisic2019.csv", "HAM10000_metadata.csv"):
    lines = list(csv.DictReader((raw / name).open()))
    with (out / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(line for line in lines if line["image_id"] in kept)
for path in raw.rglob("*.jpg"):
    if path.stem in kept:
        (out / "images" / path.name).symlink_to(path.resolve())
if (raw / "SYNTHETIC_SAMPLE.txt").exists():
    (out / "SYNTHETIC_SAMPLE.txt").write_bytes((raw / "SYNTHETIC_SAMPLE.txt").read_bytes())
PYTHON
}

prepare() { # [RAW]: two hospitals' images and descriptions, and what --engine pool:2 makes of them
    local raw=${1:-}
    if [ -z "$raw" ]; then
        raw=$place/sample
        fedcli datasets isic2018 --make-sample "$raw" > /dev/null
    fi
    two_hospitals "$(realpath "$raw")" "$place/raw"
    cd "$place"
    fedcli prepare isic2018 --raw raw --size 32 --quiet > /dev/null
    fedcli partition --by center --quiet > /dev/null
    printf 'methods = ["fedheal", "scaffold", "fedavg", "fedism-plus"]\nmaximum_rounds = 50\nsmallest_cell = 2\n' > policy.toml
    for site in $SITES; do
        fedcli site describe --client "$site" --out "described/$site.json" --quiet
    done
    train local/fedheal fedheal --engine pool:2
    train local/scaffold scaffold --engine pool:2
    echo "trained in one process each"
}
SITES="rosendahl vidir_modern"

train() { # OUT METHOD MORE... The default prior depends on class counts, which sites may hide
    local out=$1
    shift
    fedcli train "$@" --prior none --rounds "$ROUNDS" --batch-size 16 --out "$out" --quiet > /dev/null
}

digests() { # RUN: of what was trained
    (cd "$1" && sha256sum rounds.jsonl models/*.h5)
}

after_round_2() { # RUN
    [ "$(wc -l < "$1/rounds.jsonl" 2> /dev/null || echo 0)" -ge 2 ]
}

train_and_compare() { # ENGINE: FedHEAL as it is; SCAFFOLD with a site and the coordinator killed after round 2
    local first=${SITES%% *} far=(--sites described --engine "$1")
    train far/fedheal fedheal "${far[@]}"
    echo "fedheal is trained"
    fedcli evaluate far/fedheal --engine "$1" --by sex > /dev/null # counts come back from the sites, no image

    start coordinator fedcli train scaffold --prior none --rounds "$ROUNDS" --batch-size 16 --out far/scaffold "${far[@]}"
    wait_for 600 after_round_2 far/scaffold
    kill_now coordinator
    kill_now "site-$first"
    echo "killed the coordinator and the site $first after round 2"
    if fedcli train --resume --out far/scaffold --engine "$1" --timeout 30; then
        echo "the run did not need the site that was killed" >&2
        return 1
    fi
    start_site "$first"
    wait_for 600 train far/scaffold scaffold "${far[@]}" --resume
    echo "scaffold is trained"

    for method in fedheal scaffold; do
        diff <(digests "local/$method") <(digests "far/$method")
        digests "far/$method"
    done
    echo "the same bytes as --engine pool:2"
}
