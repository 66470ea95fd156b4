"""fedcli compare, and that it groups runs as report does."""

import contextlib
import io
import json

import numpy as np
import pytest
from nested_scores import body_of
from scored_runs import (
    heal,
    model,
    scored,
    stage,
)

import fedcli as stages
from fedcli.commands.app import app
from fedcli.reporting.rows import notes, rows
from fedcli.stages import compare


def fedcli(*words):
    out = io.StringIO()
    err = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.suppress(SystemExit),
    ):
        app(["compare", *map(str, words)], prog_name="fedcli")
    return out.getvalue(), err.getvalue()


def test_the_command_shows_settings_then_scores_then_what_can_be_said(tmp_path):
    a = scored(tmp_path / "a", model(0, 0), by=())
    b = heal(tmp_path / "b", model(5, 0), by=(), settings={"tau": 0.3})
    out, _ = fedcli(a.parent, b.parent, "--resamples", 100)
    order_of = [
        "FedHEAL against FedAvg, 1 seed each; they differ only in the method.",
        "balanced accuracy, clean",
        "(a) true of these trained models",
        "100 resamples of the 30 patients",
    ]
    places = [" ".join(out.split()).index(text) for text in order_of]
    assert places == sorted(places)
    assert len(out.splitlines()) <= 20
    for line in out.splitlines():
        assert len(line) <= 100
    out, _ = fedcli(a, b, "--resamples", 100, "--json=full", "--metric", "f1_macro")
    result = [row["metric"] for row in json.loads(out)["rows"]]
    assert result == ["f1_macro"]


OWN = """
def missed_cost(probabilities, labels, groups):
    return float((probabilities.argmax(1) != labels).mean())
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A work folder with two runs on generated images."""
    work = tmp_path_factory.mktemp("work")
    clients = stages.partition(stages.prepare("phantom", size=8, work=work), by="site", work=work)
    for method in ("fedavg", "fedprox"):
        stages.train(method, clients, rounds=1, work=work)
    return work


@pytest.mark.long
@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_a_metric_of_ones_own_is_tested_as_those_of_fedcli(trained, monkeypatch, interval):
    (trained / "mine.py").write_text(OWN)
    monkeypatch.chdir(trained)
    words = ["fedavg", "fedprox", "--metric", "./mine.py", "--metric", "accuracy"]
    out, _ = fedcli(
        *words,
        "--by",
        "sex",
        "--interval",
        interval,
        "--resamples",
        100,
        "--work",
        trained,
        "--json=full",
    )
    body = json.loads(out)
    rows = {(row["metric"], row["version"]): row for row in body["rows"]}
    own, usual = rows["missed_cost", "clean"], rows["accuracy", "clean"]
    for name, opposite in (("difference", "difference"), ("low", "high"), ("high", "low")):
        assert own[name] == pytest.approx(-usual[opposite])
    assert {row["metric"] for row in body["groups"]["sex"]["gaps"]} == {"missed_cost", "accuracy"}


def test_the_command_takes_the_kind_of_interval(tmp_path):
    a = scored(tmp_path / "a", model(0, 0), by=())
    b = heal(tmp_path / "b", model(1, 0), by=())
    out, _ = fedcli(a, b, "--resamples", 100, "--json=full", "--interval", "bca")
    assert json.loads(out)["interval"] == "bca"
    assert "--interval='bc' is not one of percentile, bca" in fedcli(a, b, "--interval", "bc")[1]


def test_without_runs_those_under_the_work_folder_are_compared(tmp_path, monkeypatch):
    average = scored(tmp_path / "a", model(0, 0), by=())
    healed = heal(tmp_path / "b", model(1, 0), by=())
    paths = [average, healed]
    monkeypatch.setattr(
        compare.named_runs, "newest_two", lambda path: paths if path == tmp_path else []
    )
    out, _ = fedcli("--work", tmp_path, "--resamples", 100, "--json=full")
    assert json.loads(out)["rows"]


def test_the_command_takes_two_systems(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(1, k), seed=k) for k in (0, 1)]
    assert "they are one system" in fedcli(*a)[1]
    assert "this is one run" in fedcli(a[0], a[0])[1]
    healed = heal(tmp_path / "b", model(1, 0))
    released = scored(tmp_path / "c", model(1, 0), rule="released")
    _, err = fedcli(*a, healed, released)
    assert "these runs are 3 systems, not two: FedAvg, FedHEAL, FedAvg" in err


def test_report_compare_and_page_find_the_same_systems_where_each_seed_has_a_partition_of_its_own(
    tmp_path,
):
    def data(k):
        return {
            "dataset": stage("d"),
            "partition": stage(f"p{k}", scheme="dirichlet", seed=k),
            "corruption": None,
        }

    a = []
    b = []
    for k in (0, 1, 2):
        a.append(scored(tmp_path / f"a{k}", model(1, k), seed=k, data=data(k)))
        b.append(heal(tmp_path / f"b{k}", model(2, k), seed=k, data=data(k)))
    out, err = fedcli(*a, *b, "--resamples", 100, "--json=full")
    written = json.loads(out)
    result = (written["pairs"], written["over"], written["settings"][0]["what"])
    assert result == (
        3,
        "seeds",
        "method",
    )
    assert not [setting for setting in written["settings"] if "partition" in setting["what"]]
    assert "same partition" not in err
    lines = rows([*b, *a], spread="pooled")
    result = [(row.name, row.paths) for row in lines]
    assert result == [
        ("FedAvg (3 seeds)", a),  # others are compared with it
        ("FedHEAL (3 seeds)", b),
    ]
    means = [body_of(path)["versions"]["clean"]["auc_ovo_macro"]["mean_last5"] for path in a]
    expected = pytest.approx(np.mean(means))
    assert lines[0].cells["clean auc_ovo_macro"].mean == expected
    assert notes(lines) == []
    assert (
        next(row.name for row in rows([*a, *b], spread=None)) == "FedAvg (partition seed=0, seed=0)"
    )
