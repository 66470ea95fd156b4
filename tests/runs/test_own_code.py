"""Runs of methods from a file: the record, other engines, resume, and evaluation without the file."""

import json

import pytest
from conftest import interrupt_in_round, make_chain
from made_plans import TRAINING, planned, train
from own_files import RULE, written

from fedcli import extensions
from fedcli.data import manifest
from fedcli.errors import FedcliError, HashError, UsageError
from fedcli.federation.server import Federation
from fedcli.methods import resolve
from fedcli.provenance import OwnCodeError
from fedcli.runs import own_code
from fedcli.runs.finished import open_run
from fedcli.runs.settings import begun
from fedcli.runs.train import Interrupted

DEEPER = (
    RULE.replace(
        "register(",
        """
from torch import nn

from fedcli.methods.contract import Local


class Deeper(Local):
    def extend(self, net):
        net.backbone = nn.Sequential(net.backbone, nn.Linear(64, 64))


register(""",
    )
    .replace("Plain()", "Deeper()")
    .replace("from fedcli.methods.registry import nn", "")
)
ENGINES = "in-process", "pool:2"


def plan(path, rounds=3, **settings):
    return planned(str(path), settings, TRAINING, rounds)


def results(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.suffix in (".json", ".jsonl", ".h5")
        and path.name not in ("timing.jsonl", "settings.json")
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("chain"))


@pytest.fixture
def mine(tmp_path):
    return written(tmp_path, RULE)


def test_a_run_records_the_files_sha256_and_no_place(data, mine, tmp_path):
    run = train(data, plan(f"moon+{mine}", share="0.25"), work=tmp_path)
    recorded = manifest.verify(run, "run")
    expected = {"part-way": {"file": "mine.py", "sha256": extensions.digest(mine)}}
    assert recorded.options["code"] == expected
    assert recorded.body["label"] == "MOON + PartWay"
    assert recorded.body["settings"]["share"] == 0.25
    assert recorded.made_by[:2] == ["train", "moon+mine.py:part-way"]
    assert str(tmp_path) not in run.read_text(encoding="utf-8")
    assert (
        open_run(run).method.local == resolve("moon").local
    )  # whose clients they are, without the file


def test_every_engine_comes_to_the_same_bytes(data, mine, tmp_path):
    runs = [train(data, plan(mine), work=tmp_path / engine, engine=engine) for engine in ENGINES]
    expected = results(runs[1].parent)
    assert results(runs[0].parent) == expected


def stopped(data, spec, monkeypatch, **where):
    """A run that Ctrl-C ended in its second round."""
    with monkeypatch.context() as patch:
        patch.setattr(Federation, "play", interrupt_in_round(2))
        with pytest.raises(Interrupted) as caught:
            train(data, plan(spec), **where)
    return caught.value


def test_a_run_is_resumed_to_the_same_bytes_by_the_same_command(data, mine, tmp_path, monkeypatch):
    whole = train(data, plan(mine), work=tmp_path / "whole")
    ended = stopped(data, mine, monkeypatch, work=tmp_path / "cut")
    assert ended.hint == "go on with the same command and --resume"
    cut = train(data, plan(mine), work=tmp_path / "cut", resume=True)
    assert results(cut.parent) == results(whole.parent)


def test_a_folder_alone_runs_no_file(data, mine, tmp_path, monkeypatch):
    stopped(data, mine, monkeypatch, work=tmp_path, out=tmp_path / "r")
    with pytest.raises(
        UsageError, match=r"begun with mine.py, and a file is run only where a command names it"
    ) as caught:
        begun(tmp_path / "r")
    assert (
        caught.value.hint.startswith("fedcli train mine.py:part-way")
        or "the same command" in caught.value.hint
    )


def test_a_changed_file_is_not_resumed(data, mine, tmp_path, monkeypatch):
    stopped(data, mine, monkeypatch, work=tmp_path)
    stopped(data, mine, monkeypatch, work=tmp_path, out=tmp_path / "r")
    mine.write_text(RULE.replace("part of the way", "some of the way"), encoding="utf-8")
    with pytest.raises(HashError, match=r"mine.py was changed since .*part-way-.* was begun"):
        train(data, plan(mine), work=tmp_path, resume=True)
    with pytest.raises(FedcliError, match=r"was begun with another mine.py, which was changed"):
        train(data, plan(mine), work=tmp_path, out=tmp_path / "r", resume=True)
    assert train(data, plan(mine), work=tmp_path).is_file()  # without --resume it is another run


def test_scores_need_the_file_only_where_it_builds_the_network(data, mine, tmp_path):
    plain = train(data, plan(mine, rounds=1), work=tmp_path)
    with extensions.allowed([]):  # the command that trains ends here
        deeper = written(tmp_path, DEEPER, "deeper.py")
        run = train(data, plan(deeper, rounds=1), work=tmp_path)
    mine.unlink()
    assert open_run(plain).method.label == "PartWay"
    with pytest.raises(
        UsageError, match=r"made with part-way of deeper.py, which the command does not name"
    ) as caught:
        open_run(run)
    assert "--code deeper.py" in caught.value.hint
    with extensions.allowed([deeper]):
        assert len(open_run(run).net.backbone) == 2
    deeper.write_text(DEEPER + "\n", encoding="utf-8")
    with (
        extensions.allowed([deeper]),
        pytest.raises(HashError, match=r"is not the deeper.py that this run was trained with"),
    ):
        open_run(run)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mistake_in_training_is_named_with_its_line_on_every_engine(engine, data, tmp_path):
    text = DEEPER.replace(
        "def extend",
        "def loss(self, net, batch, client):\n        return net.nothing\n\n    def extend",
    )
    path = written(tmp_path, text)
    with pytest.raises(Exception) as caught:
        train(data, plan(path), work=tmp_path, engine=engine)
    fault = (
        caught.value if isinstance(caught.value, OwnCodeError) else extensions.fault(caught.value)
    )
    line = text.splitlines().index("        return net.nothing") + 1
    assert fault.sentence.startswith(f"mine.py, line {line}: AttributeError")
    assert "in round 1 of 3" in fault.sentence


def test_needed_code_is_that_of_the_half_that_builds(tmp_path):
    deeper = written(tmp_path, DEEPER, "deeper.py")
    mine = written(tmp_path, RULE)
    assert own_code.needed(resolve(str(deeper)), "cnn") == ["part-way"]
    method = resolve(f"moon+{mine}")
    assert own_code.needed(method, "cnn") == own_code.needed(resolve(str(mine)), "cnn") == []


def test_a_damaged_settings_file_of_another_run_is_passed_over(data, mine, tmp_path):
    for name, text in (
        ("a", "{"),
        ("b", json.dumps([1])),
        ("c", json.dumps({"options": {"code": {}}})),
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "settings.json").write_text(text, encoding="utf-8")
    assert train(data, plan(mine, rounds=1), work=tmp_path, resume=True).is_file()


def test_a_finished_run_of_another_file_is_not_taken_for_this_one(data, mine, tmp_path):
    train(data, plan(mine, rounds=1), work=tmp_path, out=tmp_path / "r")
    mine.write_text(RULE + "\n", encoding="utf-8")
    with pytest.raises(
        FedcliError, match=r"already holds another result \(mine.py, which was changed\)"
    ):
        train(data, plan(mine, rounds=1), work=tmp_path, out=tmp_path / "r")
