# shellcheck shell=bash
# In place of the last line of an example: sites that lie, and servers, clients and sites that are killed.
# Called as faults ENGINE, once the job listens for a coordinator.

liar=vidir_modern
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

refused() { # NAME OUT WORD...: a training that ends in one error sentence, which names the site
    local code=0 log=$place/refused-$1.log out=$2
    shift 2
    timeout 300 fedcli train --out "$out" --prior none --timeout 60 "$@" > "$log" 2>&1 || code=$?
    echo "${log##*/} ended with $code: $(grep -h '^error:' "$log" || true)"
    [ "$code" -eq 1 ] || return 1
    [ "$(grep -c '^error:' "$log")" -eq 1 ] || return 1
    ! grep -q 'Traceback\|unexpected' "$log"
}

same() { # METHOD
    diff <(digests "local/$1") <(digests "far/$1")
    echo "$1: the same bytes as --engine pool:2"
}

lies() { # ENGINE
    local how far=(--sites described --engine "$1")
    mkdir bin
    printf '#!/bin/sh\nexec python %s/lying_site.py %s/lie "$@"\n' "$here" "$place" > bin/fedcli
    chmod +x bin/fedcli
    kill_now "site-$liar"
    PATH=$place/bin:$PATH start_site "$liar"
    for how in count negative steps shape nan columns; do
        echo "$how" > lie
        refused "$how" "far/$how" scaffold --rounds 1 --batch-size 16 "${far[@]}"
        grep -q "^error:.*$liar" "refused-$how.log"
    done
    echo forgotten > lie # its own control variate alone suffers
    fedcli train scaffold --prior none --rounds 2 --batch-size 16 --out far/forgotten "${far[@]}" --quiet
    rm lie
    train far/fedheal fedheal "${far[@]}"
    same fedheal
}

killed() { # WHOM ENGINE: after two rounds of SCAFFOLD; the run stops by itself, and --resume ends at the same bytes
    local far=(--sites described --engine "$2") whom=$1 code=0
    rm -rf far/scaffold
    SECONDS=0
    start "coordinator-$whom" fedcli train scaffold --prior none --rounds "$ROUNDS" --batch-size 16 --out far/scaffold "${far[@]}" --timeout 60
    local coordinator=$!
    wait_for 600 after_round_2 far/scaffold
    SECONDS=0
    "kill_$whom"
    wait "$coordinator" || code=$?
    echo "$whom killed: the run ended with $code after $SECONDS s: $(grep -h '^error:' "coordinator-$whom.log")"
    [ "$code" -eq 1 ]
    "again_$whom"
    SECONDS=0
    wait_for 300 train far/scaffold scaffold "${far[@]}" --resume
    echo "$whom started again: resumed after $SECONDS s"
    same scaffold
}

stop_now() { # NAME WORD...: kill -9 of it and of every process whose command line has the word
    kill_now "$1"
    for pid in $(ps -eo pid=,args= | grep -F -e "$2" | grep -v grep | awk '{print $1}'); do
        kill -9 "$pid" 2> /dev/null || true
    done
}

nvflare_client() { start "nvflare-$1" bash "$kits/$1/startup/sub_start.sh" --once; }

nvflare_job() { # the running one ends, and another is submitted: NVFlare starts no part of a running job again
    local kit=(--startup-kit "$kits/lead@coordinator.org")
    for job in $(nvflare job list "${kit[@]}" | grep -oE '[0-9a-f]{8}-[0-9a-f-]{27}' | sort -u); do
        nvflare job abort "$job" --force "${kit[@]}" > /dev/null 2>&1 || true
    done
    unused() { for site in $SITES; do [ ! -S "s/$site.sock" ] || return 1; done; }
    wait_for 60 unused || rm -f s/*.sock # of a job that was killed
    wait_for 120 nvflare job submit -j export/job "${kit[@]}"
    wait_for 120 listens
}

flower_node() { # NAME NUMBER
    start "supernode-$1" flower-supernode --superlink "127.0.0.1:$port" --root-certificates keys/ca.crt \
        --auth-supernode-private-key "keys/$1" --host 127.0.0.1 --port $((port + $2)) \
        --node-config "client=\"$1\" socket=\"$place/$1.sock\""
}

kill_client() {
    case $engine in
        nvflare) stop_now "nvflare-$liar" "$kits/$liar/" ;;
        flower) stop_now "supernode-$liar" "--runtime-api-address 127.0.0.1:$((port + 2))" ;;
    esac
}

again_client() {
    case $engine in
        nvflare)
            nvflare_client "$liar"
            nvflare_job
            ;;
        flower) flower_node "$liar" 2 ;;
    esac
}

kill_server() {
    case $engine in
        nvflare) stop_now nvflare-localhost "$kits/localhost/" ;;
        flower) stop_now superlink "--runtime-api-address 127.0.0.1:$port" ;;
    esac
}

again_server() {
    case $engine in
        nvflare)
            nvflare_client localhost
            nvflare_job
            ;;
        flower)
            start superlink flower-superlink --host 127.0.0.1 --port "$port" --ssl-ca-certfile keys/ca.crt \
                --ssl-certfile keys/server.pem --ssl-keyfile keys/server.key --enable-supernode-auth \
                --disable-runtime-dependency-installation --database state.db
            wait_for 120 flwr run export/app consortium
            ;;
    esac
}

faults() { # ENGINE
    engine=${1%%:*}
    lies "$1"
    killed client "$1"
    killed server "$1"
}
