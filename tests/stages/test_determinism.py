"""Whatever may differ between two machines or two days, from raw images to scores every file has the same bytes."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import interrupt_in_round
from PIL import Image
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.federation.server import Federation

ROUNDS = 3
TRAIN = f"train fedheal --rounds {ROUNDS} --batch-size 8 --participation 0.7"
CLOCKS = ".lock", "timing.jsonl"


def stages(jobs):
    """The command lines of a chain, run in a folder that has images."""
    yield f"prepare images --raw raw --size 8 --group sex --patient patient --jobs {jobs}"
    yield "partition --dirichlet 1 --clients 3 --val 0.2"
    yield f"corrupt gaussian --jobs {jobs}"
    yield f"{TRAIN} --jobs {jobs}"
    yield "evaluate --by sex"
    yield "report --format csv --by sex --out fedcli-work/report.csv"


def type_in(folder, *lines):
    """Run command lines in a folder, in this process."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        for line in lines:
            done = CliRunner().invoke(app, line.split())
            assert done.exit_code == 0, done.stderr
    finally:
        os.chdir(before)


def digests(folder):
    digest_by_path = {}
    for path in (folder / "fedcli-work").rglob("*"):
        if path.is_file() and path.name not in CLOCKS:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            digest_by_path[str(path.relative_to(folder))] = digest
    return digest_by_path


def with_images(folder):
    """The folder, with 48 images of 16 patients, written in another order each time."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (48, 9, 9), np.uint8)
    order = np.random.default_rng(len(str(folder))).permutation(48)
    for k in order:
        Image.fromarray(images[k]).save(raw / f"{k:02d}.png")
    lines = ["image,label,patient,sex"]
    for k in range(48):
        patient = k // 3
        lines.append(f"{k:02d}.png,{'abc'[k % 3]},p{patient},{'fm'[patient % 2]}")
    (raw / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = with_images(tmp_path_factory.mktemp("first"))
    type_in(folder, *stages(jobs=1))
    return digests(folder)


def test_the_number_of_processes_and_the_place_change_no_byte(expected, tmp_path):
    folder = with_images(tmp_path / "another place, with a longer name")
    type_in(folder, *stages(jobs=2))
    assert digests(folder) == expected
    assert len(expected) > 12


def test_the_hash_seed_the_threads_and_the_time_zone_change_no_byte(expected, tmp_path):
    folder = with_images(tmp_path)
    code = "import sys; from test_determinism import *; type_in(Path(sys.argv[1]), *stages(1))"
    environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "2", "TZ": "Asia/Tokyo"}
    tests = Path(__file__).parents[1]
    folders = [Path(__file__).parent, tests, tests / "support"]
    environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    command = [sys.executable, "-c", code, str(folder)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    assert digests(folder) == expected


def test_a_run_that_stops_after_every_round_has_the_same_bytes(expected, tmp_path, monkeypatch):
    folder = with_images(tmp_path)
    before = [*stages(1)][:3]
    (train, *after) = [*stages(1)][3:]
    type_in(folder, *before)
    for number in range(1, ROUNDS + 1):
        monkeypatch.setattr(Federation, "play", interrupt_in_round(number))
        monkeypatch.chdir(folder)
        line = train if number == 1 else f"{train} --resume"
        done = CliRunner().invoke(app, line.split())
        assert done.exit_code == 130, done.stderr
        if number > 1:
            assert f"after round {number - 1} of {ROUNDS}" in done.stderr, done.stderr
        monkeypatch.undo()
    type_in(folder, f"{train} --resume", *after)
    assert digests(folder) == expected
