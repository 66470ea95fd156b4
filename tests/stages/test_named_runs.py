"""Runs by name, method or label."""

import json
import shutil
from pathlib import Path

import pytest

import fedcli
from fedcli.data import last_used
from fedcli.errors import FedcliError, UsageError
from fedcli.io.locks import LOCK, held
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.stages import call, collect, named_runs


@pytest.fixture(scope="module")
def work_and_runs(tmp_path_factory):
    """FedAvg with two seeds, another lr and other data; FedISM+ with one seed; and the work folder."""
    work = tmp_path_factory.mktemp("work")
    dataset = fedcli.prepare("toy", size=8, sample_images=60, out=work / "datasets" / "toy")
    data = [fedcli.partition(dataset, iid=True, clients=count, work=work) for count in (2, 3)]
    arguments = {
        "a0": ("fedavg", 0, {}),
        "a1": ("fedavg", 0, {"seed": 1}),
        "ism": ("fedism-plus", 0, {}),
        "lr": ("fedavg", 0, {"lr": 0.1}),
        "other": ("fedavg", 1, {}),
        "prox": ("fedprox", 1, {}),
    }
    runs = {}
    for name, (method, number, options) in arguments.items():
        run = fedcli.train(method, data[number], rounds=1, work=work, name=name, **options)
        runs[name] = run.path
    return work, runs


def named(paths: list[Path]) -> list[str]:
    return [path.parent.name for path in paths]


def test_the_newest_run_of_a_name_is_taken_and_said(work_and_runs, capsys):
    work, runs = work_and_runs
    newest = {"a1": "a1", "FedISM+": "ism", "fedism-plus": "ism", "fedavg": "other"}
    for name, run in newest.items():
        assert named_runs.newest(name, work) == runs[run], name
    assert call.source("a1", work, "dataset", "run") == runs["a1"]
    dataset = runs["a1"].parents[2] / "datasets" / "toy"
    assert call.source(dataset, work, "dataset", "run").name == "dataset.json"
    assert "the newest of 4 runs of fedavg" in capsys.readouterr().err
    assert fedcli.evaluate("ism", work=work).path.is_relative_to(runs["ism"].parent)


def test_the_newest_runs_that_can_be_compared_are_all_seeds_of_one_system_on_the_same_data(
    work_and_runs, capsys
):
    work, _ = work_and_runs
    result = named(named_runs.every(["fedavg", "FedISM+"], work))
    assert result == ["a0", "a1", "ism"]
    printed = capsys.readouterr().err
    assert f"fedavg: {work}/runs/a1, seeds 0, 1; 2 other runs left out" in printed
    assert f"FedISM+: {work}/runs/ism" in printed
    result = named(named_runs.every(["fedprox", "fedavg"], work))
    assert result == ["prox", "other"]
    result = named(named_runs.every(["lr", "ism"], work))
    assert result == [
        "lr",
        "ism",
    ]  # of the same data, with another option
    result = named(named_runs.every(["a0", "prox"], work))
    assert result == [
        "a0",
        "prox",
    ]  # each is one run: compare says what differs
    with pytest.raises(
        FedcliError, match="no runs of fedavg and fedism-plus and fedprox are of the same data"
    ):
        named_runs.every(["fedavg", "fedism-plus", "fedprox"], work)


def test_paths_and_names_may_stand_together(work_and_runs):
    work, runs = work_and_runs
    result = len(collect.scores_of_all([runs["ism"]] * 2, EvaluateOptions()))
    assert result == 1
    paths = named_runs.every([runs["lr"].parent, "ism"], work)
    assert paths[1] == runs["ism"]
    result = named_runs.every([str(runs["lr"]), "ism"], work)
    assert result == [runs["lr"], runs["ism"]]


def test_a_name_that_no_run_has_is_no_path_either(work_and_runs, tmp_path):
    work, _ = work_and_runs
    with pytest.raises(
        FedcliError, match=r"no such manifest: fedhel, and no run under .* has this name"
    ):
        named_runs.newest("fedhel", work)
    with pytest.raises(FedcliError) as error:
        named_runs.every(["fedavg"], tmp_path)
    assert "fedcli train METHOD" in error.value.hint
    assert not named_runs.is_known("fedheal", work)
    assert named_runs.is_known("prox", work)


def test_a_run_that_cannot_be_read_keeps_no_other_from_its_name(work_and_runs, capsys):
    work, runs = work_and_runs
    damaged = work / "runs" / "damaged" / "run.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    assert named_runs.newest("ism", work) == runs["ism"]
    assert f"left out {damaged.parent}" in capsys.readouterr().err
    named_runs.every(["a0", "ism"], work)
    assert capsys.readouterr().err.count(f"left out {damaged.parent}") == 1
    shutil.rmtree(damaged.parent)


def test_an_unfinished_run_is_named_as_such_and_not_another(work_and_runs):
    work, _ = work_and_runs
    folder = work / "runs" / "a2"
    folder.mkdir()
    try:
        (folder / "settings.json").write_text("{}")
        for read in (named_runs.newest, lambda name, work: named_runs.every([name], work)):
            with pytest.raises(FedcliError, match="a2 holds an unfinished run") as error:
                read("a2", work)
            assert error.value.hint == f"go on with: fedcli train --resume --out {folder}"
        assert named_runs.is_known("a2", work)  # export says how it goes on
        with (
            held(folder / LOCK, "", ""),
            pytest.raises(FedcliError, match="a2 holds an unfinished run") as error,
        ):
            named_runs.newest("a2", work)
        assert error.value.hint.startswith("it is being trained: wait for it to end")
    finally:
        shutil.rmtree(folder)


def test_two_names_are_compared_from_python(work_and_runs):
    work, _ = work_and_runs
    compared = fedcli.compare(["fedavg", "FedISM+"], resamples=100, work=work)
    frame = compared.to_frame()
    percent = compared.to_frame(percent=True)
    assert list(frame.metric) == ["balanced_accuracy", "auc_ovo_macro"]
    assert frame.attrs["unit"] == "share"
    assert percent.attrs["unit"] == "%"
    expected = pytest.approx(100 * frame.a[0])
    assert percent.a[0] == expected
    assert "FedISM+" in str(compared)
    assert "<table>" in compared._repr_html_()
    assert json.dumps(compared.words())


def test_without_names_the_newest_run_and_all_with_its_data_and_rounds_are_taken(
    work_and_runs, capsys
):
    work, runs = work_and_runs
    found = collect.comparable_runs(work)
    newest = max(runs.values(), key=last_used.age).parent.name
    of_three_clients = {"other", "prox"}
    expected = of_three_clients if newest in of_three_clients else {*runs} - of_three_clients
    assert {*named(found)} == expected
    printed = " ".join(capsys.readouterr().err.split())
    assert "left out, as they have other data or rounds than the newest run: " in printed
    for name in {*runs} - expected:
        assert name in printed
    assert f"{work}/runs as an argument means all runs" in printed


@pytest.mark.parametrize(
    ("order", "expected", "left_out"),
    [
        (["lr", "a0", "a1", "ism"], ["a0", "a1", "ism"], "lr"),
        (["lr", "ism", "a0", "a1"], ["a0", "a1", "ism"], "lr"),
        (["a0", "a1", "lr"], ["a0", "a1", "lr"], ""),
        (["other", "prox"], ["other", "prox"], ""),
    ],
)
def test_without_names_the_newest_method_is_compared_with_fedavg(
    work_and_runs, monkeypatch, capsys, order, expected, left_out
):
    work, runs = work_and_runs
    paths = [runs[name] for name in order]
    monkeypatch.setattr(named_runs, "comparable_runs", lambda work: paths)
    monkeypatch.setattr(last_used, "age", paths.index)
    compared = named_runs.newest_two(work)
    assert sorted(named(compared)) == sorted(expected)
    assert named(compared)[-1] == expected[-1]
    printed = capsys.readouterr().err
    assert (f"left out: {left_out}; " in printed) == bool(left_out)


def test_runs_of_one_system_are_not_compared_with_another(work_and_runs, monkeypatch):
    work, runs = work_and_runs
    paths = [runs["a0"], runs["a1"]]
    monkeypatch.setattr(named_runs, "comparable_runs", lambda work: paths)
    with pytest.raises(UsageError, match="differ in nothing but the seed"):
        fedcli.compare(work=work)
