"""fedcli on a Mac, as far as Linux can pretend to be one: see tests/support/pretended_mac.py."""

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from own_files import RULE
from own_images_folder import save

SITE = Path(__file__).parent.parent / "support" / "mac"
DEMO = "demo --rounds 1 --work demo"
CARD = [
    "prepare rsna-ich --corrupt gaussian --ratio 0.2 --work card",
    "train fedheal --rounds 2 --work card",
    "evaluate --by race --work card",
]
PROCESSES = [
    "prepare images --raw raw --size 8 --jobs 2 --work many",
    "partition --iid --clients 4 --work many",
    "corrupt gaussian --jobs 2 --work many",
    "train ./mine.py --rounds 2 --jobs 2 --work many",
    "train fedavg fedprox --rounds 1 --work many",
]
# results that do not say on which system they were made
SAME = "datasets/*/*", "partitions/*/*", "corruptions/*/*", "runs/*/rounds.jsonl", "runs/*/models/*"
PLAY = """
import json, sys
from typer.testing import CliRunner
from fedcli.commands.app import app
ends = {}
for line in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, line.split())
    ends[line] = done.exit_code, done.stdout, done.stderr
json.dump(ends, open("ends.json", "w"))
"""


def ends_of(lines, folder, **environment):
    """The exit code, stdout and stderr of each line, all of one process that begins in a folder."""
    subprocess.run(
        [sys.executable, "-c", PLAY, json.dumps(lines)],
        cwd=folder,
        env=os.environ | environment,
        check=True,
    )
    return json.loads((folder / "ends.json").read_text())


def on_a_mac(lines, folder):
    """The ends of lines on a pretended Mac, in a folder that is reached by a link, as /tmp is there."""
    (folder / "private").mkdir()
    link = folder / "link"
    link.symlink_to("private")
    fill(link)
    ends = ends_of(lines, link, PYTHONPATH=str(SITE), PRETENDED_MAC_FOLDER=str(folder))
    return ends, link


def fill(folder):
    lines = ["image,label"]
    for number in range(60):
        label = "xy"[number % 2]
        save(folder / "raw" / f"IM{number}.PNG", 100 * (number % 2) + number)
        lines.append(f"im{number}.png,{label}")
    (folder / "raw" / "labels.csv").write_text("\n".join(lines))
    (folder / "mine.py").write_text(RULE)


def digests(folder):
    """The sha256 of every result that no system may change, by its path in the folder."""
    by_path = {}
    for pattern in SAME:
        for path in folder.glob(pattern):
            if path.is_file():
                by_path[str(path.relative_to(folder))] = sha256(path.read_bytes()).hexdigest()
    return by_path


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(sys.platform == "darwin", reason="is a Mac")
def test_the_demo_and_the_three_lines_end_well(tmp_path):
    ends, folder = on_a_mac([DEMO, *CARD], tmp_path)
    for code, _, err in ends.values():
        assert code == 0, err
    assert "<h1" in (folder / "demo" / "report.html").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(sys.platform == "darwin", reason="is a Mac")
def test_processes_that_are_not_forked_leave_the_same_bytes(tmp_path):
    ends, folder = on_a_mac(PROCESSES, tmp_path)
    for code, _, err in ends.values():
        assert code == 0, err
    plain = tmp_path / "plain"
    plain.mkdir()
    fill(plain)
    expected = ends_of(PROCESSES, plain)
    assert {line: out for line, (_, out, _) in ends.items()} == {
        line: out for line, (_, out, _) in expected.items()
    }
    assert digests(folder / "many") == digests(plain / "many")
