"""Several runs scored side by side: the same bytes, with the runs' names in the progress."""

import shutil
from functools import partial
from pathlib import Path

import pytest

import fedcli
from fedcli.errors import FedcliError
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.stages import collect, scored_together
from fedcli.system import processes

PLAIN = EvaluateOptions()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A work folder with runs of two methods, without scores."""
    work = tmp_path_factory.mktemp("together")
    dataset = fedcli.prepare("phantom", size=8, sample_images=80, work=work)
    clients = fedcli.partition(dataset, iid=True, clients=2, work=work)
    for method in ("fedavg", "fedprox"):
        fedcli.train(method, clients, rounds=1, name=method, work=work)
    return work


@pytest.fixture
def work(trained, tmp_path, monkeypatch):
    """A copy of the work folder, on a machine with two cores where any work pays."""
    monkeypatch.setattr(processes, "cores", lambda: 2)
    monkeypatch.setattr(scored_together, "FEW", 0)
    return Path(shutil.copytree(trained, tmp_path / "work"))


def runs_of(work):
    return sorted(work.glob("runs/*/run.json"))


def bytes_of(work):
    files = sorted(work.glob("runs/*/scores/*/*"))
    return {file.relative_to(work): file.read_bytes() for file in files}


def one_after_another(function, tasks, slots, preload):
    """A stand-in for processes.one_each() in this process."""
    for task in tasks:
        messages = []
        report = partial(_keep, messages)
        value = function(*task, slots[0], report)
        yield from ((task, message) for message in messages)
        yield task, processes.Ended(value)


def _keep(messages, *message):
    messages.append(message)


def test_the_runs_names_are_shown(work, monkeypatch, caplog):
    caplog.set_level("INFO", "fedcli")
    monkeypatch.setattr(processes, "one_each", one_after_another)
    scores = collect.scores_of_all(runs_of(work), PLAIN)
    assert [path.parents[2].name for path in scores] == ["fedavg", "fedprox"]
    lines = [record.getMessage() for record in caplog.records if "/2]" in record.getMessage()]
    assert lines[0].startswith("[0/2] FedAvg · seed 0: scoring 1/")
    assert [line for line in lines if line.endswith(": scored")] == [
        "[1/2] FedAvg · seed 0: scored",
        "[2/2] FedProx · seed 0: scored",
    ]
    assert "already" not in caplog.text


def test_what_several_runs_warn_of_is_said_once(work, monkeypatch, caplog):
    def warns(function, tasks, slots, preload):
        for task in tasks:
            yield task, processes.Ended(["few test images"])

    monkeypatch.setattr(processes, "one_each", warns)
    scored_together.score(runs_of(work), PLAIN)
    assert caplog.text.count("few test images") == 1


def test_a_run_that_fails_side_by_side_is_scored_by_itself(work, monkeypatch):
    def killed(function, tasks, slots, preload):
        for task in tasks:
            yield task, processes.Ended(code=-9)

    monkeypatch.setattr(processes, "one_each", killed)
    assert len(collect.scores_of_all(runs_of(work), PLAIN)) == 2


def test_what_is_wrong_with_a_run_is_said_once(work, monkeypatch):
    monkeypatch.setattr(processes, "one_each", one_after_another)
    runs = runs_of(work)
    next(runs[1].parent.glob("models/*")).write_bytes(b"no model")
    with pytest.raises(FedcliError, match="models"):
        collect.scores_of_all(runs, PLAIN)
    assert len(list(work.glob("runs/*/scores/*/scores.json"))) <= 1


@pytest.mark.parametrize("reason", ["one core", "little work", "one run", "a large network"])
def test_one_after_another_where_processes_gain_nothing(work, monkeypatch, reason):
    monkeypatch.setattr(processes, "one_each", None)
    runs = runs_of(work)
    if reason == "one core":
        monkeypatch.setattr(processes, "cores", lambda: 1)
    if reason == "little work":
        monkeypatch.setattr(scored_together, "FEW", 10**6)
    if reason == "a large network":
        monkeypatch.setattr(scored_together, "_needs_one_core", lambda path: False)
    if reason == "one run":
        runs = runs[:1]
    assert len(collect.scores_of_all(runs, PLAIN)) == len(runs)


@pytest.mark.long
def test_scores_have_the_same_bytes_as_one_after_another(work, tmp_path, monkeypatch):
    other = Path(shutil.copytree(work, tmp_path / "other"))
    collect.scores_of_all(runs_of(work), PLAIN)
    monkeypatch.setattr(processes, "cores", lambda: 1)
    collect.scores_of_all(runs_of(other), PLAIN)
    assert bytes_of(work) == bytes_of(other)
