"""Training on real ray clusters of this machine: `pytest tests/consortium`. Some minutes."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import make_chain

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="the extra ray is not installed")
FEDCLI = Path(sys.executable).with_name("fedcli")
RAY = Path(sys.executable).with_name("ray")
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def train(data, out, *more, rounds=4, address=""):
    command = [FEDCLI, "train", "scaffold", data, "--rounds", str(rounds), "--out", out, "--quiet", *more]
    return subprocess.Popen(command, env=QUIET | {"RAY_ADDRESS": address}, stderr=subprocess.PIPE, text=True)


def done(process):
    _, words = process.communicate(timeout=400)
    assert process.returncode == 0, words[-2000:]
    return words


def made(out):
    return {path.name: path.read_bytes() for path in [out / "rounds.jsonl", *out.glob("models/*.h5")]}


@pytest.fixture
def nodes():
    """Starts nodes of a cluster, each in a process group of its own; ends what is left of them."""
    started = {}
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ray") as folder:  # sockets want a short name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"

        def start(name, *, head=False):
            where = (
                ["--head", "--port", address.rpartition(":")[2], "--temp-dir", folder]
                if head
                else ["--address", address]
            )
            command = [RAY, "start", *where, "--node-ip-address", "127.0.0.1", "--num-cpus", "1", "--block"]
            more = ["--object-store-memory", "100000000", "--include-log-monitor", "false"]
            log = open(Path(folder, f"{name}.log"), "w")
            group = {"start_new_session": True, "stdout": log, "stderr": log}
            started[name] = subprocess.Popen(
                [*command, *more, *["--include-dashboard", "false"] * head], env=QUIET, **group
            )
            return address

        yield start, lambda name: os.killpg(started.pop(name).pid, signal.SIGKILL)
        for process in started.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_nodes(address, count):
    code = f"import ray; ray.init({address!r}, log_to_driver=False, logging_level='ERROR'); print(sum(n['Alive'] for n in ray.nodes()))"
    end = time.monotonic() + 180
    while subprocess.run([sys.executable, "-c", code], env=QUIET, capture_output=True, text=True).stdout.strip() != str(
        count
    ):
        assert time.monotonic() < end, f"the cluster at {address} does not have {count} nodes"
        time.sleep(1)


def test_a_cluster_of_this_machine_comes_to_the_bytes_of_a_pool(tmp_path):
    data = make_chain(tmp_path)
    done(train(data, tmp_path / "pool", "--engine", "pool:2"))
    done(train(data, tmp_path / "ray", "--engine", "ray:2"))
    assert made(tmp_path / "ray") == made(tmp_path / "pool")


def test_a_node_that_is_killed_in_a_round_and_then_the_whole_cluster(tmp_path, nodes):
    """The run goes on without the node, and is resumed on a new cluster after it lost the other one too."""
    start, kill = nodes
    data, rounds = make_chain(tmp_path), 400
    address = start("head", head=True)
    wait_for_nodes(address, 1)
    start("second")
    wait_for_nodes(address, 2)
    pool = train(data, tmp_path / "pool", "--engine", "pool:2", rounds=rounds)
    process = train(data, tmp_path / "ray", "--engine", "ray", rounds=rounds, address=address)
    lines, end = tmp_path / "ray" / "rounds.jsonl", time.monotonic() + 180
    while not lines.exists() or lines.read_text().count("\n") < 5:
        assert process.poll() is None and time.monotonic() < end, process.communicate()[1]
        time.sleep(0.05)
    kill("second")
    at = lines.read_text().count("\n")
    while lines.read_text().count("\n") < at + 5:
        assert process.poll() is None and time.monotonic() < end, process.communicate()[1]
        time.sleep(0.05)
    kill("head")
    _, words = process.communicate(timeout=200)
    assert "a worker of the ray cluster was lost: 1 worker goes on" in words
    assert process.returncode and not (tmp_path / "ray" / "run.json").exists(), words
    done(pool)
    done(train(data, tmp_path / "ray", "--engine", "ray:2", "--resume", rounds=rounds))
    assert made(tmp_path / "ray") == made(tmp_path / "pool")
