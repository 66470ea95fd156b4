"""Metrics of one's own: the same numbers as fedcli's where they are the same function."""

import re

import numpy as np
import pytest
from evaluated_runs import ROSTER, a_run, scorer
from own_files import written

import fedcli
from fedcli.comparison.tested import check_names
from fedcli.errors import FedcliError, UsageError
from fedcli.metrics import better_low
from fedcli.scores import own_metrics
from fedcli.scores.scores import RunScores
from fedcli.scores.statistics import intervals
from fedcli.scores.views import AMONG

FILE = '''
def share_right(probabilities, labels, groups):
    """Share of right decisions."""
    return (probabilities.argmax(1) == labels).mean()


def gap_cost(probabilities, labels, groups):
    right = probabilities.argmax(1) == labels
    shares = [right[groups["sex"] == value].mean() for value in ("f", "m") if (groups["sex"] == value).any()]
    return max(shares) - min(shares) if len(shares) > 1 else None


def text(probabilities, labels, groups):
    return "much"


def fails(probabilities, labels, groups):
    return labels.nothing


def accuracy(probabilities, labels, groups):
    return 1.0
'''


@pytest.fixture
def path(tmp_path):
    return written(tmp_path, FILE, "own.py")


@pytest.fixture
def scores_of(monkeypatch):
    return scorer(monkeypatch)


def scored(make, run, *names, attributes=("sex",)):
    with own_metrics.asked_for([str(name) for name in names]):
        return RunScores.read(make(run, by=attributes))


UNITS = [None, np.array([f"p{k // 2}" for k in range(90)])]


@pytest.mark.parametrize("units", UNITS, ids=["images", "patients"])
def test_accuracy_as_a_function_has_the_numbers_of_accuracy_everywhere(
    units, path, tmp_path, scores_of
):
    run = a_run(tmp_path, units=units)
    scores = scored(scores_of, run, f"{path}:share_right")
    for version in ("clean", "corrupted", "average"):
        mine, theirs = (scores.versions[version][name] for name in ("share_right", "accuracy"))
        assert mine.values == pytest.approx(theirs.values)
        expected = pytest.approx((theirs.low, theirs.high, theirs.units))
        assert (mine.low, mine.high, mine.units) == expected
    for version in ("clean", "corrupted"):
        groups = scores.groups["sex"][version]
        for value in ("female", "male"):
            mine, theirs = (groups[name][value] for name in ("share_right", "accuracy"))
            assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high))
            assert mine.values == pytest.approx(theirs.values)
        for measure in ("gap", "worst group", "mean over groups"):
            mine, theirs = (
                scores.part().lies("sex", version, name, measure)
                for name in ("share_right", "accuracy")
            )
            assert mine.values == pytest.approx(theirs.values)
        mine, theirs = (
            scores.part().edges("sex", version, name) for name in ("share_right", "accuracy")
        )
        assert mine == theirs


def test_a_function_sees_the_groups_and_is_none_where_there_is_one(
    path, tmp_path, scores_of, monkeypatch
):
    monkeypatch.setattr(intervals, "RESAMPLES", 50)
    text = FILE.replace('("f", "m")', '("female", "male")')
    scores = scored(scores_of, a_run(tmp_path), f"{written(tmp_path, text, 'own.py')}:gap_cost")
    gap = scores.part().lies("sex", "clean", "accuracy", "gap").last
    result = scores.versions["clean"]["gap_cost"].last
    assert result == pytest.approx(gap)
    assert scores.groups["sex"]["clean"]["gap_cost"]["male"].last is None
    assert better_low("gap_cost")
    assert not better_low("share_right")


@pytest.mark.parametrize("bn", ["aggregate", "local"], ids=["one model", "models of their own"])
def test_clients_have_the_numbers_of_accuracy_too(bn, path, tmp_path, scores_of, monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 20)
    run = a_run(
        tmp_path,
        bn=bn,
        rounds=(4, 5),
        own={client: range(k, 90, 5) for k, client in enumerate(ROSTER)},
    )
    scores = scored(scores_of, run, f"{path}:share_right")
    for name, client in scores.clients.items():
        for model in ("", "global") if bn == "local" else ("",):
            metrics = scores.part(model=model, client=name).overall[client.version]
            assert metrics["share_right"].values == pytest.approx(metrics["accuracy"].values)
        groups = scores.part(client=name).groups["sex"][client.version]
        expected = pytest.approx(groups["accuracy"]["male"].values)
        assert groups["share_right"]["male"].values == expected
    mine, theirs = (scores.among_clients[name] for name in ("share_right", "accuracy"))
    for measure in AMONG:
        assert mine[measure].values == pytest.approx(theirs[measure].values)
    for model in scores.personal:
        metrics = scores.part(model=model).overall["corrupted"]
        assert metrics["share_right"].last == pytest.approx(metrics["accuracy"].last)


def test_the_worst_client_is_the_one_with_the_highest_cost(tmp_path, scores_of, monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 20)
    text = "def wrong_cost(chances, labels, groups):\n    return (chances.argmax(1) != labels).mean()\n"
    run = a_run(tmp_path, own={client: range(k, 90, 5) for k, client in enumerate(ROSTER)})
    scores = scored(scores_of, run, written(tmp_path, text, "own.py"))
    mine, theirs = (scores.among_clients[name] for name in ("wrong_cost", "accuracy"))
    worst = "worst among clients"
    expected = pytest.approx(1 - theirs[worst].mean)
    assert mine[worst].mean == expected


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (":text", "own.py: text returned a str, not a number"),
        (":nothing", "has no function 'nothing' that makes a metric"),
        (":accuracy", "fedcli has a metric 'accuracy' already"),
        ("", "has several functions: share_right"),
    ],
)
def test_what_is_no_metric_is_refused(name, sentence, path, tmp_path, scores_of):
    with pytest.raises(FedcliError, match=sentence):
        scored(scores_of, a_run(tmp_path), f"{path}{name}")
    with pytest.raises(UsageError, match="no metric of one's own is called 'kappa'"):
        scored(scores_of, a_run(tmp_path), "kappa")


def test_where_there_is_no_metric_of_ones_own_it_is_refused(path):
    with pytest.raises(
        UsageError, match="is a metric of your own, and the tests here are made for fedcli's"
    ):
        check_names([f"{path}:share_right"])
    with pytest.raises(UsageError, match="--metric and --engine exclude each other"):
        metric = [f"{path}:share_right"]
        fedcli.evaluate("run", metric=metric, engine="socket:x")


def test_from_a_run_to_a_report(path, tmp_path, monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 5)
    options = fedcli.prepare("phantom", size=8, work=tmp_path)
    clients = fedcli.partition(options, by="site", work=tmp_path)
    run = fedcli.train("fedavg", clients, rounds=1, work=tmp_path)
    metric = [f"{path}:share_right", "accuracy"]
    report = fedcli.report(run, metric=metric, by=["sex"], work=tmp_path)
    frame = report.to_frame()
    expected = pytest.approx(frame["clean accuracy"][0])
    assert frame["clean share_right"][0] == expected
    expected = pytest.approx(frame["sex worst group accuracy"][0])
    assert frame["sex worst group share_right"][0] == expected
    assert "worst among clients share_right" in frame
    for format in ("markdown", "latex", "csv", "json"):
        assert ("share_right" if format in ("csv", "json") else "share right") in " ".join(
            report.to(format).split()
        )
    page = re.sub(r"<wbr>|&[a-z]+;", "", report.to("html"))
    assert "share right" in page
    evaluated = fedcli.evaluate(run, metric=[f"{path}:share_right"], by=["sex"], work=tmp_path)
    result = evaluated.manifest.options["metrics"]["share_right"]["file"]
    assert result == "own.py"
    assert evaluated.path == report.scores[0]
    assert str(tmp_path) not in evaluated.path.read_text(encoding="utf-8")


def test_the_sentences_of_a_report_are_on_the_metric_that_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.setattr(intervals, "RESAMPLES", 5)
    data = fedcli.prepare("phantom", size=8, work=tmp_path)
    clients = fedcli.partition(data, by="site", work=tmp_path)
    runs = [
        fedcli.train(name, clients, rounds=3, lr=lr, work=tmp_path)
        for name, lr in (("fedavg", 1e-7), ("fedprox", 3e-3))
    ]
    report = fedcli.report(runs, metric=[f"{path}:share_right"], work=tmp_path)
    tested = report.tabled.tests
    assert {where.metric for where in tested} == {"share_right"}
    assert report.tabled.verdicts[0].startswith("FedProx")
    assert "share right" in report.tabled.verdicts[0]
    assert not any("AUC" in sentence for sentence in report.tabled.verdicts)
