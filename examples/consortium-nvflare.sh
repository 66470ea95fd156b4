#!/usr/bin/env bash
# A rehearsal of a consortium on one machine over NVFlare: a server and two hospitals, each a process of its own, with
# mutual TLS; each hospital also runs `fedcli site`, to which NVFlare's client is attached. FedHEAL and SCAFFOLD end with
# the same bytes as in one process, although the coordinator and a site are killed on the way.
#
#     pip install -e '.[nvflare]'
#     examples/consortium-nvflare.sh [RAW]     # HAM10000 as `fedcli datasets isic2018` says; without it, a synthetic sample
#
# docs/consortium.md explains each step, and what differs between hospitals.
source "$(dirname "$(realpath "$0")")/consortium-common.sh"
export HOME=$place/home # NVFlare keeps its settings there
mkdir -p "$HOME"
port=${PORT:-$(python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')}

prepare "${1:-}"

# Certificates and a folder for each, the startup kit; in a consortium the project's administrator makes and sends these.
cat > project.yml << YAML
api_version: 3
name: consortium
builders:
- path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  args: {template_file: [master_template.yml]}
- path: nvflare.lighter.impl.static_file.StaticFileBuilder
  args: {config_folder: config}
- path: nvflare.lighter.impl.cert.CertBuilder
- path: nvflare.lighter.impl.signature.SignatureBuilder
participants:
- {name: localhost, type: server, org: coordinator, fed_learn_port: $port}
- {name: lead@coordinator.org, type: admin, org: coordinator, role: lead}
$(for site in $SITES; do echo "- {name: $site, type: client, org: $site}"; done)
YAML
nvflare provision -p project.yml -w kits > provision.log
kits=$place/kits/consortium/prod_00

# The job, and what server and hospitals allow: no code travels with it.
fedcli site job nvflare described --out export --sockets "$place/s" --idle 300 --attach "$place/attach" --quiet > /dev/null
mkdir -m 770 attach
python - "$kits" localhost $SITES << 'PYTHON'
import json, sys
from pathlib import Path

allowed = json.loads(Path("export/allow-list.json").read_text())
for name in sys.argv[2:]:
    local = Path(sys.argv[1]) / name / "local"
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] += allowed["server" if name == "localhost" else "sites"]
    (local / "resources.json").write_text(json.dumps(resources))
PYTHON
for site in $SITES; do cp "export/sites/$site/comm_config.json" "$kits/$site/local/"; done

start_site() { # NAME: the hospital's own process, which NVFlare neither starts nor stops
    start "site-$1" fedcli site --client "$1" --policy policy.toml --nvflare "export/sites/$1/profile.json"
}
for party in localhost $SITES; do start "nvflare-$party" bash "$kits/$party/startup/sub_start.sh" --once; done
for site in $SITES; do start_site "$site"; done

joined() { grep -q "Total clients: 2" nvflare-localhost.log; }
wait_for 120 joined
wait_for 120 nvflare job submit -j export/job --startup-kit "$kits/lead@coordinator.org"
listens() { for site in $SITES; do [ -S "s/$site.sock" ]; done; }
wait_for 120 listens
echo "the job listens for a coordinator"

train_and_compare "nvflare:$place/s"
