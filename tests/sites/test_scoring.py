"""Evaluation over sites: counts in place of logits, the same scores as where all images are at hand."""

import importlib
import json
import shutil
from dataclasses import replace

import forked
import numpy as np
import published_schema
import pytest
from made_plans import train
from site_federation import OPEN, TRAINING, chain_with_tests, plan, reached, sites_of, train_at

from fedcli.comparison.tested import compare
from fedcli.errors import FedcliError, UsageError
from fedcli.figures.figure import NothingToDraw
from fedcli.figures.system import System
from fedcli.reporting.rows import rows
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import EvaluateOptions, ReportOptions
from fedcli.scores.nested import nested
from fedcli.scores.scores import RunScores
from fedcli.sites.description import SiteError, describe
from fedcli.sites.policy import Policy, Privacy
from fedcli.sites.roster import gathered
from fedcli.sites.site import Site
from fedcli.stages.collect import scores_of_all
from fedcli.stages.corrupt import run as corrupt
from fedcli.stages.evaluate import run as evaluate_stage
from fedcli.stages.options import CorruptOptions
from fedcli.stages.report import Report

TIED = 0.05  # of forty images: two that share a bin move an AUC by more than its width, see tests/metrics/test_tallies.py


@pytest.fixture
def data(tmp_path):
    return chain_with_tests(tmp_path)


def federated(run, work, **more):
    options = EvaluateOptions(run, work=work, engine="here:x", **more)
    return RunScores.read(evaluate_stage(options).path)


def numbers(value, path=()):
    """Place -> number of all that a JSON value holds."""
    if isinstance(value, bool):
        return {}
    if isinstance(value, int | float):
        return {path: value}
    items = enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict):
        items = value.items()
    numbers_below = {}
    for key, item in items:
        numbers_below |= numbers(item, (*path, key))
    return numbers_below


def run_of_sites(data, work, monkeypatch, configuration=None, policy=OPEN):
    """A run at sites, which --engine here:x asks, and the transport to them."""
    sites = sites_of(data, work / "sites", policy=policy)
    run = train_at(sites, data, configuration or plan(rounds=1), work, out=work / "run")
    return run, reached(monkeypatch, sites)


def pooled_and_federated(data, work, monkeypatch, configuration):
    """The scores of one run by both ways."""
    run, _ = run_of_sites(data, work, monkeypatch, configuration)
    path = evaluate(run)
    return RunScores.read(path), federated(run, work)


def without_intervals(value):
    return {path: n for path, n in numbers(value).items() if "intervals" not in path}


def assert_as_pooled(mine, other):
    """Numbers below two JSON values: counts alone to the last digit, what bins decide to a bin."""
    mine = without_intervals(mine)
    other = without_intervals(other)
    assert mine.keys() == other.keys()
    assert len(mine) > 50
    for path, number in other.items():
        is_count = path[-1] in ("count", "unknown")
        is_exact = is_count or "accuracy" in path or "f1_macro" in path
        expected = pytest.approx(number, abs=0 if is_exact else TIED)
        assert mine[path] == expected, path


def test_scores_over_sites_are_those_of_all_images_to_a_bin(data, tmp_path, monkeypatch):
    trained = replace(TRAINING, lr=0.2)
    pooled, scores = pooled_and_federated(data, tmp_path, monkeypatch, plan("scaffold", 3, trained))
    for part in ("versions", "groups", "clients"):
        assert_as_pooled(nested(scores)[part], nested(pooled)[part])
    assert scores.kept_rounds == [1, 2, 3]
    assert scores.label == "SCAFFOLD"


def test_corrupted_images_are_scored_at_their_sites(data, tmp_path, monkeypatch):
    corrupted = corrupt(CorruptOptions(data, "gaussian", ratio=0.5, work=tmp_path, jobs=1)).path
    pooled, scores = pooled_and_federated(corrupted, tmp_path, monkeypatch, plan(rounds=1))
    assert set(scores.versions) == {"clean", "corrupted", "average"}
    result = {c: client.version for c, client in scores.clients.items()}
    expected = {c: client.version for c, client in pooled.clients.items()}
    assert result == expected
    outcome = len({client.version for client in scores.clients.values()})
    assert outcome == 2
    for part in ("versions", "groups", "clients"):
        assert_as_pooled(nested(scores)[part], nested(pooled)[part])
    assert scores.data["corruption"] == pooled.data["corruption"]
    assert scores.corruption == pooled.corruption


def test_corrupted_images_that_some_sites_lack_are_left_out(data, tmp_path, monkeypatch):
    corrupted = corrupt(CorruptOptions(data, "gaussian", ratio=0.5, work=tmp_path, jobs=1)).path
    sites = sites_of(data, tmp_path / "sites", policy=OPEN)
    sites["north"] = Site(corrupted, tmp_path / "sites" / "north", client="north", policy=OPEN)
    run = train_at(sites, data, plan(rounds=1), tmp_path, out=tmp_path / "run")
    reached(monkeypatch, sites)
    scores = federated(run, tmp_path)
    assert list(scores.versions) == ["clean"]
    assert ("only clean images" in scores.warning) == (
        scores.clients["north"].version == "corrupted"
    )


def test_intervals_and_curves_follow_from_counts(data, tmp_path, monkeypatch):
    pooled, scores = pooled_and_federated(data, tmp_path, monkeypatch, plan(rounds=1))
    clean = scores.versions["clean"]
    with_interval = {metric: score for metric, score in clean.items() if score.interval}
    assert set(with_interval) == {"accuracy", "balanced_accuracy", "f1_macro"}  # of three classes
    for metric, interval in with_interval.items():
        assert interval.unit == "image"
        assert interval.low <= interval.last <= interval.high
        pooled_score = pooled.versions["clean"][metric]
        width = pooled_score.high - pooled_score.low  # by patients of two images
        assert interval.high - interval.low == pytest.approx(width, rel=0.5)
    accuracies = scores.groups["sex"]["clean"]["accuracy"]
    groups = {group for group, score in accuracies.items() if score.interval}
    assert groups == {"f", "m"}
    curve = scores.curves["clean"].overall
    assert not curve.at_false_positives
    outcome = sum(bin_of_curve.images for bin_of_curve in curve.reliability)
    assert outcome == 40
    error = 0.0
    for bin_of_curve in curve.reliability:
        distance = abs(bin_of_curve.mean_chance - bin_of_curve.share_right)
        error += bin_of_curve.images * distance / 40
    expected = clean["calibration_error_top_label"].last
    assert error == pytest.approx(expected, abs=1e-9)
    assert set(scores.curves["clean"].clients) == set(scores.clients)
    outcome = set(scores.curves["clean"].groups["sex"])
    assert outcome == {"f", "m"}


def test_reports_pages_and_compare_take_them(data, tmp_path, monkeypatch):
    paths = []
    runs = []
    for method in ("fedavg", "scaffold"):
        for seed in (0, 1):
            sites = sites_of(data, tmp_path / f"{method}-{seed}", policy=OPEN)
            out = tmp_path / f"run-{method}-{seed}"
            run = train_at(sites, data, plan(method, 1, seed=seed), tmp_path, out=out)
            reached(monkeypatch, sites)
            runs.append(run)
            options = EvaluateOptions(run, work=tmp_path, engine="here:x")
            paths.append(evaluate_stage(options).path)
    report = Report(paths, ReportOptions())
    assert not published_schema.errors(paths[0])
    assert [row.scores.label for row in report.rows] == ["FedAvg", "SCAFFOLD"]
    assert "SCAFFOLD" in report.to("markdown")
    assert "by image" in report.to("html")
    comparison = compare(paths[:2], paths[2:], resamples=200)
    assert [pair.metric for pair in comparison.rows]
    assert "counts at their sites" in comparison.remarks[0]
    assert comparison.sample.unit == "image"
    for row in comparison.rows:
        assert row.low < row.difference < row.high
        assert row.differing == comparison.sample.units == 40
    assert {row.metric for row in comparison.groups["sex"].gaps}
    result = {row.group for row in comparison.groups["sex"].each}
    assert result == {
        "f",
        "m",
    }
    pooled = [evaluate(run) for run in runs]
    with_images = compare(pooled[:2], pooled[2:], resamples=200)
    paired = {row.metric: row for row in with_images.rows}
    for row in comparison.rows:
        expected = pytest.approx(paired[row.metric].difference)
        assert row.difference == expected
    with pytest.raises(FedcliError, match="was counted at sites and"):
        compare(paths[:2], pooled[2:])


def test_a_report_takes_the_scores_of_a_coordinator_without_images(data, tmp_path, monkeypatch):
    sites = sites_of(data, tmp_path / "sites", policy=OPEN)
    folder = tmp_path / "described"
    folder.mkdir()
    for client in sites:
        (folder / f"{client}.json").write_text(json.dumps(describe(data, client, client)))
    run = train_at(sites, gathered([folder], tmp_path), plan(), tmp_path, out=tmp_path / "run")
    reached(monkeypatch, sites)
    evaluate_stage(EvaluateOptions(run, work=tmp_path, engine="here:x", by=("sex",)))
    (scores_path,) = (run.parent / "scores").glob("*/scores.json")
    earlier = scores_path.parent.with_name(
        "0"
    )  # of this run before it went on for more rounds; sorted first
    shutil.copytree(scores_path.parent, earlier)
    facts = json.loads(scores_path.read_text())
    (earlier / "scores.json").write_text(
        json.dumps(facts | {"parents": dict.fromkeys(facts["parents"], "0" * 64)})
    )
    (row,) = rows(scores_of_all([run], EvaluateOptions(by=["sex"])))
    shutil.rmtree(run.parent / "scores")
    with pytest.raises(FedcliError, match="are at its sites") as error:
        scores_of_all([run], EvaluateOptions())
    assert "--engine socket:DIR" in error.value.hint
    assert row.scores.images == 40
    assert list(row.scores.groups) == ["sex"]
    result = row.scores.data["partition"].options["sites"].keys()
    assert result == sites.keys()
    assert set(row.scores.clients) == set(sites)
    counted = "its sites answered with counts, so there are no predictions of single images"
    with pytest.raises(NothingToDraw, match=counted):
        System(scored=row.scored).images("clean", "")
    with pytest.raises(UsageError, match="no attribute 'age'"):
        evaluate_stage(EvaluateOptions(run, work=tmp_path, engine="here:x", by=("age",)))
    with pytest.raises(UsageError, match="--shots needs the test images"):
        evaluate_stage(EvaluateOptions(run, work=tmp_path, engine="here:x", shots="9,3"))
    with pytest.raises(UsageError, match="reaches no sites"):
        evaluate_stage(EvaluateOptions(run, work=tmp_path, engine="pool:2"))


@pytest.mark.parametrize("asked", ["begin", "score"])
def test_a_site_that_is_silent_in_an_evaluation_gets_no_hint_on_training(
    data, tmp_path, monkeypatch, asked
):
    sites = sites_of(data, tmp_path / "sites", policy=OPEN)
    run = train_at(sites, data, plan(rounds=1), tmp_path, out=tmp_path / "run")

    def silent(client, question, answer):
        return "it did not answer" if question["ask"] == asked else answer

    reached(monkeypatch, sites).change = silent
    with pytest.raises(SiteError, match="it did not answer") as error:
        federated(run, tmp_path)
    assert "--resume" not in error.value.hint
    assert error.value.hint.endswith("--timeout; then give this command again")


def test_a_clients_own_model_is_scored_at_its_site(data, tmp_path, monkeypatch):
    usual = train(data, plan("fedbn"), work=tmp_path, out=tmp_path / "usual")
    path = evaluate(usual)
    run, _ = run_of_sites(data, tmp_path, monkeypatch, plan("fedbn"))
    scores = federated(run, tmp_path)
    pooled = RunScores.read(path)
    assert scores.kept_rounds == [2]
    assert "every client's own model answers" in scores.warning
    for client, facts in pooled.clients.items():
        site_part, pooled_part = (
            scores_found.part(client=client).overall[facts.version]
            for scores_found in (scores, pooled)
        )
        for metric in ("accuracy", "balanced_accuracy"):
            assert site_part[metric].last == pooled_part[metric].last


def test_small_cells_leave_with_nobody(data, tmp_path, monkeypatch):
    run, transport = run_of_sites(data, tmp_path, monkeypatch, policy=Policy(smallest_cell=3))
    arrays_sent = []

    def keep(client, question, answer):
        arrays_sent.append(answer[1])
        return answer

    transport.change = keep
    scores = federated(run, tmp_path)
    assert scores.images == 40
    assert set(scores.grouped["sex"].hidden) == {"f", "m"}
    tables = []
    for arrays in arrays_sent:
        tables += [array for name, array in arrays.items() if name.endswith("table")]
    counts = np.concatenate([table.sum(1) for table in tables])
    assert tables
    assert not ((counts > 0) & (counts < 3)).any()


POLICIES = [
    (Policy(scores=False), "does not allow counts of its test images"),
    (Policy(privacy=Privacy(epsilon=1e6)), "does not allow counts of its test images"),
    (Policy(smallest_cell=100), "no class has enough test images"),
]


@pytest.mark.parametrize(("policy", "sentence"), POLICIES)
def test_a_policy_may_refuse_scores(data, tmp_path, monkeypatch, policy, sentence):
    run, _ = run_of_sites(data, tmp_path, monkeypatch, policy=policy)
    with pytest.raises(FedcliError, match=sentence):
        federated(run, tmp_path)


def test_counts_that_cannot_be_are_refused(data, tmp_path, monkeypatch):
    run, transport = run_of_sites(data, tmp_path, monkeypatch)

    def more(client, question, answer):
        scalars, arrays = answer
        return scalars, {
            name: array + (name == "clean/all/table") for name, array in arrays.items()
        }

    transport.change = more
    with pytest.raises(SiteError, match="site north answered with counts of 'all' that cannot be"):
        federated(run, tmp_path)
    transport.change = lambda client, question, answer: (
        {**answer[0], "left_out": "many"},
        answer[1],
    )
    with pytest.raises(
        SiteError, match="site north leaves out 'many' images, which is no number of its 10"
    ):
        federated(run, tmp_path)


def test_the_command_knows_the_engines_that_reach_sites():
    """In a process that has imported nothing else of fedcli."""

    def work():
        print(importlib.import_module("fedcli.federation.engines").remote("socket:s"))

    assert "open_sockets" in forked.run(work, anew=True).stdout
