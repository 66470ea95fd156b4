"""A federation small enough to play in milliseconds: four clients, 8x8 images, batch norm and dropout."""

import gc
import os
import sys
from functools import lru_cache
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import typer.testing
from raw_folders import write_pool
from torch import nn

from fedcli import console
from fedcli.bench.toy import CLASSES, ROSTER, toy_clip, toy_federation, toy_net, toy_shard  # noqa: F401 - for tests
from fedcli.data import manifest
from fedcli.data.pool import Row
from fedcli.data.shard import Shard, Shards
from fedcli.extensions import allowed
from fedcli.federation.server import Federation
from fedcli.leaves import is_installed
from fedcli.methods import resolve
from fedcli.methods.contract import ClientUpdates
from fedcli.models.layout import Layout

os.environ["NO_COLOR"] = "1"
os.environ.pop("COLUMNS", None)  # else tables are as wide as the terminal of whoever runs the tests
os.environ["NO_ALBUMENTATIONS_UPDATE"] = (
    "1"  # else it asks the network for its newest version when it is imported
)
os.environ.pop(
    "PYTHONDONTWRITEBYTECODE", None
)  # else every worker and every command compiles all modules anew
sys.dont_write_bytecode = False
os.fsync = lambda file: (
    None
)  # a test that loses power is run again: some 10,000 times 2 ms of waiting for a disk
typer.main.get_command = typer.testing._get_command = lru_cache(8)(
    typer.main.get_command
)  # else built for each line
torch.set_num_threads(1)
torch.set_deterministic_debug_mode("error")  # as in training


def pytest_addoption(parser):
    parser.addoption("--count", type=int, default=8, help="campaign: cases of every kind")
    parser.addoption("--seed", type=int, default=1, help="campaign: which cases are drawn")
    parser.addoption(
        "--tally", help="campaign: a file to which findings and counts are added as JSON lines"
    )


FIRST = {
    "test_readme.py",
    "test_contributing.py",
    "test_documented_lines.py",
    "test_golden.py",
    "test_smoke.py",
}
UNLIMITED = "campaign", "consortium"  # each command in them has a limit of its own


def pytest_collection_modifyitems(items):
    """The longest first: one that begins last would be waited for alone."""
    items.sort(key=lambda item: item.path.name not in FIRST)
    for item in items:
        if item.path.parent.name in UNLIMITED:
            item.add_marker(pytest.mark.timeout(0))
        elif item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(1200))


def pytest_collection_finish():
    """No collection looks again at what is imported; a forked process would copy each page of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(autouse=True)
def _in_its_folder():
    """A test that leaves this process in another folder fails: pytest removes that folder under later ones."""
    before = Path.cwd()
    yield
    after = Path.cwd()
    os.chdir(before)
    assert after == before


@pytest.fixture(autouse=True)
def _one_core(_in_its_folder, monkeypatch):
    """Nothing forks this large process unasked, since the suite has a worker on each core; results are the same."""
    monkeypatch.setattr("fedcli.system.processes.cores", lambda: 1)
    monkeypatch.setattr("fedcli.federation.engines.pool.cores", lambda: 1)


@pytest.fixture(autouse=True)
def _no_limits(monkeypatch):
    """Training on a busy machine takes long enough for its limits to be measured, which some tests do by themselves."""
    if is_installed("fedcli.bench.limits"):
        monkeypatch.setattr("fedcli.bench.limits.LEAST", float("inf"))


@pytest.fixture(autouse=True)
def _names_no_code():
    """Files of code that one test names are not named in the next one."""
    with allowed(()):
        yield


@pytest.fixture(autouse=True)
def _loud():
    """--quiet of one test is not the next one's."""
    with console.shown():
        yield


def toy_shards(**special: Shard) -> dict[str, Shard]:
    return {client: special.get(client) or toy_shard(client) for client in ROSTER}


def play(  # noqa: PLR0913 - a test names the few that it changes
    spec,
    settings=None,
    *,
    rounds=3,
    until=None,
    state=None,
    shards=None,
    training=None,
    participation=1.0,
    seed=1,
    roster=ROSTER,
    each=None,
    dropout=0.2,
):
    """Play rounds on the toy federation and return the state; `each` sees every Played."""
    federation = toy_federation(
        resolve(spec, settings),
        shards=shards or toy_shards(),
        training=training,
        rounds=rounds,
        participation=participation,
        seed=seed,
        dropout=dropout,
    )
    state = state or federation.first()
    while state.round < (until or rounds):
        played = federation.play(state, roster)
        state = played.state
        if each:
            each(played)
    return state


def interrupt_in_round(number):
    """In place of Federation.play: Ctrl-C in this round."""
    play = Federation.play

    def interrupted(federation, state, *rest, **named):
        if state.round + 1 == number:
            raise KeyboardInterrupt
        return play(federation, state, *rest, **named)

    return interrupted


def flat_layout(*sizes: int) -> Layout:
    """A layout of trainable vectors of these sizes and nothing else."""
    net = nn.Module()
    for i, size in enumerate(sizes):
        net.register_parameter(f"w{i}", nn.Parameter(torch.zeros(size)))
    return Layout(net)


def client_updates(  # noqa: PLR0913 - a test names the few that it changes
    theta,
    *,
    layout=None,
    t=1,
    rounds=10,
    rows=None,
    roster=None,
    n=None,
    lr=0.1,
    steps=None,
    **columns,
) -> ClientUpdates:
    """A round's table made by hand."""
    theta = torch.as_tensor(theta, dtype=torch.float32)
    k = len(theta)
    if rows is None:
        rows = range(k)
    if n is None:
        n = [1.0] * k
    if steps is None:
        steps = [1.0] * k
    return ClientUpdates(
        round=t,
        rounds=rounds,
        seed=0,
        lr=lr,
        rows=torch.as_tensor(rows),
        roster=roster or k,
        n=torch.as_tensor(n, dtype=torch.float64),
        steps=torch.as_tensor(steps, dtype=torch.float64),
        theta=theta,
        columns={name: torch.as_tensor(values) for name, values in columns.items()},
        layout=layout or flat_layout(theta.shape[1]),
    )


@pytest.fixture(scope="session")
def shards() -> Shards:
    """The toy federation as train and evaluate see it."""
    test = toy_shard("test", 60)
    return Shards(
        ["a", "b", "c"],
        {"sex": ["f", "m"]},
        ROSTER,
        toy_shards(),
        {},
        {"clean": test},
        {c: np.array([], int) for c in ROSTER},
        [],
        {},
    )


def make_chain(work: Path, *, corrupted: bool = False, augment: str = "none") -> Path:
    """A dataset and its partition on disk, made without the stages under test; with `corrupted` a third manifest."""
    rng = np.random.default_rng(7)
    rows = []
    images = []
    stripe = np.arange(8)[:, None, None] // 3
    for i in range(120):
        label = i % CLASSES
        rows.append(Row(f"img-{i}", label, None, i >= 80, {"sex": i % 2}, f"patient-{i // 2}"))
        pixels = rng.integers(0, 150, (8, 8, 1)) + 80 * (stripe == label)
        images.append(np.clip(pixels, 0, 255).astype(np.uint8))
    common = {
        "classes": ["a", "b", "c"],
        "attributes": {"sex": ["f", "m"]},
        "size": [8, 8],
        "channels": 1,
        "augment": augment,
        "dataset": "made",
    }

    def dataset(folder: Path) -> dict:
        write_pool(folder / "pool.h5", rows, images, ["sex"])
        return common | {
            "name": "made",
            "title": "made",
            "clients": 4,
            "sites": None,
            "count": 120,
            "unit": "patient_id",
            "skipped": [],
            "split": {"train": 80, "test": 40, "by": "patient"},
        }

    def partition(folder: Path) -> dict:
        with h5py.File(folder / "rows.h5", "w") as file:
            for k in range(4):
                file[f"train/{k}"] = np.arange(k * 20, k * 20 + 20)
                file[f"val/{k}"] = file[f"test/{k}"] = np.array([], np.int64)
            file["test/all"] = np.arange(80, 120)
        counts = {"train": 20, "val": 0, "test": 0, "class_counts": [7, 7, 6]}
        roster = [{"client": client, **counts} for client in ROSTER]
        return common | {"scheme": "blocks", "roster": roster}

    def corruption(folder: Path) -> dict:
        with h5py.File(folder / "changed.h5", "w") as file:
            file["train/rows"] = np.arange(60, 80)
            file["test/rows"] = np.arange(80, 120)
            for part in ("train", "test"):
                clean = np.stack(images)[file[f"{part}/rows"][()]].astype(int)
                noisy = clean + rng.normal(0, 60, clean.shape)
                file[f"{part}/x"] = np.clip(noisy, 0, 255).astype(np.uint8)
        return partition_body | {
            "kind": "gaussian-noise",
            "severity": 3,
            "ratio": 0.25,
            "clients": ["west"],
        }

    dataset_path = manifest.stage(
        "dataset",
        folder=work / "datasets" / "made",
        made_by=["prepare", "made"],
        options={},
        parents=[],
        build=dataset,
    )
    path = manifest.stage(
        "partition",
        folder=work / "partitions" / "made",
        made_by=["partition"],
        options={},
        parents=[dataset_path],
        build=partition,
    )
    if not corrupted:
        return path
    partition_body = manifest.read(path).body
    return manifest.stage(
        "corruption",
        folder=work / "corruptions" / "made",
        made_by=["corrupt"],
        options={},
        parents=[path],
        build=corruption,
    )
