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
QUIET = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
}


def train(data, out, *more, rounds=4, address=""):
    command = [FEDCLI, "train", "scaffold", data, "--rounds", str(rounds), "--out", out, *more]
    with open(f"{out}.txt", "a") as words:
        return subprocess.Popen(
            command,
            env=QUIET | {"RAY_ADDRESS": address},
            stdout=subprocess.DEVNULL,
            stderr=words,
            text=True,
        )


def done(process, out):
    code = process.wait(timeout=500)
    assert code == 0, words(out)
    return out


def words(out):
    return Path(f"{out}.txt").read_text()[-3000:]


def wait_for_round(number, process, out):
    lines = out / "rounds.jsonl"
    end = time.monotonic() + 180
    while not lines.exists() or lines.read_text().count("\n") < number:
        assert process.poll() is None, words(out)
        assert time.monotonic() < end, words(out)
        time.sleep(0.05)
    return lines.read_text().count("\n")


def made(out):
    return {
        path.name: path.read_bytes() for path in [out / "rounds.jsonl", *out.glob("models/*.h5")]
    }


@pytest.fixture
def nodes():
    """Starts nodes of a cluster, each in a process group of its own; ends what is left of them."""
    started = {}
    with tempfile.TemporaryDirectory(
        dir="/tmp", prefix="ray"
    ) as folder:  # sockets want a short name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"

        def start(name, *, head=False):
            where = (
                ["--head", "--port", address.rpartition(":")[2], "--temp-dir", folder]
                if head
                else ["--address", address]
            )
            command = [
                RAY,
                "start",
                *where,
                "--node-ip-address",
                "127.0.0.1",
                "--num-cpus",
                "1",
                "--block",
            ]
            flags = ["--object-store-memory", "100000000", "--include-log-monitor", "false"]
            group = {
                "start_new_session": True,
                "stdout": subprocess.DEVNULL,
                "stderr": subprocess.DEVNULL,
            }
            started[name] = subprocess.Popen(
                [*command, *flags, *["--include-dashboard", "false"] * head], env=QUIET, **group
            )
            return address

        def kill(name):
            process = started.pop(name)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        yield start, kill
        for name in list(started):
            kill(name)


NODES = """
import ray
ray.init(log_to_driver=False, logging_level="ERROR")
print(sum(node["Alive"] for node in ray.nodes()))
"""


def wait_for_nodes(address, count):
    end = time.monotonic() + 180
    probe = [sys.executable, "-c", NODES]
    environment = QUIET | {"RAY_ADDRESS": address}
    while subprocess.run(
        probe, env=environment, capture_output=True, text=True
    ).stdout.strip() != str(count):
        assert time.monotonic() < end, f"the cluster at {address} does not have {count} nodes"
        time.sleep(1)


def test_a_cluster_of_this_machine_comes_to_the_bytes_of_a_pool(tmp_path):
    data = make_chain(tmp_path)
    pool = tmp_path / "pool"
    ray = tmp_path / "ray"
    done(train(data, pool, "--engine", "pool:2"), pool)
    done(train(data, ray, "--engine", "ray:2"), ray)
    assert made(ray) == made(pool)


def test_a_node_that_is_killed_in_a_round_and_then_the_whole_cluster(tmp_path, nodes):
    """The run goes on without the node, ends when it lost the other too, and is resumed to the same bytes."""
    start, kill = nodes
    data = make_chain(tmp_path)
    pool = tmp_path / "pool"
    ray = tmp_path / "ray"
    rounds = 100
    address = start("head", head=True)
    wait_for_nodes(address, 1)
    start("second")
    wait_for_nodes(address, 2)
    done(train(data, pool, "--engine", "pool:2", rounds=rounds), pool)
    process = train(data, ray, "--engine", "ray", rounds=rounds, address=address)
    wait_for_round(5, process, ray)
    kill("second")
    wait_for_round(wait_for_round(5, process, ray) + 5, process, ray)
    kill("head")
    assert process.wait(timeout=200), words(ray)
    assert not (ray / "run.json").exists(), words(ray)
    assert "a worker of the ray cluster was lost: 1 worker goes on" in words(ray)
    assert "go on with --resume" in words(ray)
    done(train(data, ray, "--engine", "ray:2", "--resume", rounds=rounds), ray)
    assert made(ray) == made(pool)
