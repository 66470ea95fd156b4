"""Damaged and edited files of every kind, given to the commands that read them: never "unexpected", never silent harm.

A few cases here; thousands with FEDCLI_CAMPAIGN=COUNT, and other ones with FEDCLI_CAMPAIGN_SEED=NUMBER:

    FEDCLI_CAMPAIGN=5000 pytest -n 0 tests/campaign
"""

import json
import os
import shutil

import numpy as np
import pytest
from conftest import interrupt_in_round, make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.federation.client import Training
from fedcli.federation.server import Federation
from fedcli.runs.configuration import Plan
from fedcli.runs.train import Interrupted, train

COUNT, SEED = int(os.environ.get("FEDCLI_CAMPAIGN", 40)), int(os.environ.get("FEDCLI_CAMPAIGN_SEED", 0))
CODES = 0, 1, 2, 3
ODD = [None, True, -1, 2**63, 1e308, "", "x" * 5000, "\0", "\x1b[31m", "../../x", [], {}, [[]], {"": None}, "é", 0.5]


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Everything that fedcli writes, once: data, a finished run with scores, an unfinished one."""
    work = tmp_path_factory.mktemp("campaign") / "work"
    data = make_chain(work, corrupted=True)
    plan = Plan("fedavg", {}, Training(optimizer="sgd", lr=0.05, batch_size=8), 3)
    run = train(data, plan, work=work, out=work / "runs" / "whole")
    assert CliRunner().invoke(app, ["evaluate", str(run), "--work", str(work), "--quiet"]).exit_code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Federation, "play", interrupt_in_round(3))
        with pytest.raises(Interrupted):
            train(data, plan, work=work, out=work / "runs" / "cut")
    return work


def commands(work, name):
    """What reads a file of this name."""
    run, cut = str(work / "runs" / "whole"), str(work / "runs" / "cut")
    every = [
        ["inspect", str(work / name)], ["partition", "--iid", "--clients", "2", str(work / "datasets" / "made")],
        ["evaluate", run], ["report", "--format", "markdown"], ["plot", run, "--out", str(work / "p.svg")],
        ["train", "--resume", "--out", cut], ["compare", run, run],
        ["train", "fedprox", "--rounds", "1", "--weights", run, "--out", str(work / "new")],
    ]  # fmt: skip
    return [words for words in every if words[0] != "inspect" or name.endswith((".json", ".h5"))]


def places(value, at=()):
    """The path of every value in JSON."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


def edited(text, draw):
    """JSON in which one value is another, or a key is gone."""
    value = json.loads(text)
    at = [place for place in places(value) if place]
    *above, last = at[draw.integers(len(at))]
    inner = value
    for key in above:
        inner = inner[key]
    if draw.random() < 0.25:
        del inner[last]
    else:
        inner[last] = ODD[draw.integers(len(ODD))]
    return json.dumps(value)


def damaged(data, draw):
    """Bytes flipped, cut, repeated or overwritten."""
    place, data = int(draw.integers(max(len(data), 1))), bytearray(data)
    way = draw.integers(5)
    if way == 0 and data:
        data[place] ^= 1 << int(draw.integers(8))
    elif way == 1:
        del data[place:]
    elif way == 2:
        data[place:place] = data[max(0, place - 64) : place]
    elif way == 3:
        data[place : place + 16] = bytes(16)
    else:
        data[:] = draw.integers(0, 256, 200, np.uint8).tobytes()
    return bytes(data)


def sealed_again(path):
    """Let the manifest of a folder list what now lies there, as somebody would who edits files on purpose."""
    for folder in (path.parent, path.parent.parent):
        for kind in manifest.KINDS:
            above = folder / f"{kind}.json"
            if above.is_file() and above != path:
                body = json.loads(above.read_text())
                name = path.relative_to(folder).as_posix()
                if name in body.get("files", {}):
                    body["files"][name] = manifest.sha256(path)
                    above.write_text(json.dumps(body))


@pytest.mark.parametrize("case", range(COUNT))
def test_no_file_leads_to_an_unexpected_error(tmp_path, chain, case):
    draw = np.random.default_rng([SEED, case])
    work = tmp_path / "work"
    shutil.copytree(chain, work)
    names = sorted(path.relative_to(work).as_posix() for path in work.rglob("*") if path.suffix and path.is_file())
    names = [name for name in names if not name.endswith(".lock")]
    name = names[draw.integers(len(names))]
    path = work / name
    if path.suffix == ".json" and draw.random() < 0.7:
        path.write_text(edited(path.read_text(), draw))
    else:
        path.write_bytes(damaged(path.read_bytes(), draw))
    if draw.random() < 0.4:
        sealed_again(path)
    asked = commands(work, name)
    for k in draw.choice(len(asked), 2, replace=False):
        words = [*asked[k], "--quiet"] + ([] if asked[k][0] == "compare" else ["--work", str(work)])
        ended = CliRunner().invoke(app, words)
        said = f"{case}: {name}: fedcli {' '.join(asked[k])}\n{ended.stderr}"
        assert ended.exit_code in CODES and "unexpected" not in ended.stderr and "Traceback" not in ended.stderr, said
        assert (ended.exit_code == 0) == (not ended.stderr.startswith("error")), said
    assert not list(work.rglob("*.tmp")), f"{case}: {name}"
