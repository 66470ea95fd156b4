#!/usr/bin/env bash
# A rehearsal of a consortium on one machine over Flower: a SuperLink and two SuperNodes, each a process of its own, with
# TLS and registered keys; each hospital also runs `fedcli site`, to which its SuperNode hands every message. FedHEAL and
# SCAFFOLD end with the same bytes as in one process, although the coordinator and a site are killed on the way.
#
#     pip install -e '.[flower]'
#     examples/consortium-flower.sh [RAW]     # HAM10000 as `fedcli datasets isic2018` says; without it, a synthetic sample
#
# docs/consortium.md explains each step, and what differs between hospitals.
source "$(dirname "$(realpath "$0")")/consortium-common.sh"
export HOME=$place/home FLWR_HOME=$place/home/.flwr FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$FLWR_HOME"
port=${PORT:-$(python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')}

prepare "${1:-}"

# A certificate for the SuperLink, and a key for each SuperNode, of which the coordinator gets the public half.
mkdir keys
openssl req -x509 -newkey rsa:3072 -nodes -days 7 -keyout keys/ca.key -out keys/ca.crt -subj "/CN=consortium" 2> /dev/null
openssl req -newkey rsa:3072 -nodes -keyout keys/server.key -out keys/server.csr -subj "/CN=localhost" 2> /dev/null
echo "subjectAltName=DNS:localhost,IP:127.0.0.1" > keys/names
openssl x509 -req -in keys/server.csr -CA keys/ca.crt -CAkey keys/ca.key -CAcreateserial -days 7 -extfile keys/names \
    -out keys/server.pem 2> /dev/null
for site in $SITES; do ssh-keygen -q -t ecdsa -b 384 -N "" -f "keys/$site"; done
printf '[superlink.consortium]\naddress = "127.0.0.1:%s"\nroot-certificates = "%s"\n' "$port" "$place/keys/ca.crt" \
    > "$FLWR_HOME/config.toml"

start superlink flower-superlink --host 127.0.0.1 --port "$port" --ssl-ca-certfile keys/ca.crt \
    --ssl-certfile keys/server.pem --ssl-keyfile keys/server.key --enable-supernode-auth \
    --disable-runtime-dependency-installation --database state.db
for site in $SITES; do wait_for 120 flwr supernode register "keys/$site.pub" consortium; done

start_site() { # NAME: the hospital's own process, which has the images
    start "site-$1" fedcli site --client "$1" --policy policy.toml --socket "$place/$1.sock"
}
number=0
for site in $SITES; do
    number=$((number + 1))
    start_site "$site"
    start "supernode-$site" flower-supernode --superlink "127.0.0.1:$port" --root-certificates keys/ca.crt \
        --auth-supernode-private-key "keys/$site" --host 127.0.0.1 --port $((port + number)) \
        --node-config "client=\"$site\" socket=\"$place/$site.sock\""
done

fedcli site job flower described --out export --sockets "$place/s" --idle 300 --quiet > /dev/null
wait_for 120 flwr run export/app consortium
listens() { for site in $SITES; do [ -S "s/$site.sock" ]; done; }
wait_for 120 listens
here() { for site in $SITES; do [ -S "$site.sock" ] && grep -q "startup complete" "supernode-$site.log"; done; }
wait_for 120 here
echo "the app listens for a coordinator"

# Secure aggregation: the server learns sums over the sites alone, of updates and, for FedISM+, of the numbers that its
# weights are made of. Updates are quantized, so bytes differ.
for method in fedavg fedism-plus; do train "local/$method" "$method" --engine pool:2; done
for method in fedavg fedism-plus; do
    train "far/$method" "$method" --sites described --engine "flower-secagg:$place/s"
    python - "local/$method" "far/$method" << 'PYTHON'
import sys
from pathlib import Path

import h5py
import numpy as np

for path in sorted(Path(sys.argv[1], "models").glob("*.h5")):
    with h5py.File(path) as local, h5py.File(Path(sys.argv[2], "models", path.name)) as far:
        names = []
        local.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        farthest = max(float(np.abs(local[name][()] - far[name][()]).max(initial=0)) for name in names)
    print(f"secure aggregation, {path.stem}: numbers of the model differ by at most {farthest:.1e} from those of pool:2")
    assert farthest < 1e-5 or path.stem != "00001"  # later rounds train on from what rounding changed
PYTHON
done

train_and_compare "flower:$place/s"
