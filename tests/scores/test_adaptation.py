"""`evaluate --adapt`: batch-norm statistics, class prior and temperature, each beside none."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hospitals import prepared, write_hospitals
from torch import nn

import fedcli
from fedcli.data.shard import Shard
from fedcli.errors import FedcliError, UsageError
from fedcli.methods.contract import Local
from fedcli.metrics import probabilities
from fedcli.reporting import page, single_runs, writers
from fedcli.runs.finished import open_run
from fedcli.scores.clinical.points import Seen, temperature
from fedcli.scores.deploy import adaptation
from fedcli.scores.evaluate import _images
from fedcli.scores.facts import ScoredImages
from fedcli.scores.parts import Adaptations, AdaptedScore
from fedcli.scores.scores import RunScores


def seen(logits, y):
    client = np.full(len(y), -1)
    return Seen(logits, y, {}, client)


@pytest.fixture(scope="module")
def answers():
    """Logits whose softmax is the chance of the labels that are drawn from it: calibrated."""
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(4000, 3)) + np.array([0.8, 0.0, -0.8])
    y = np.array([draw.choice(3, p=p) for p in probabilities(logits)])
    return seen(logits, y)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def dataset(work):
    raw = write_hospitals(work / "raw")
    return prepared(raw, work)


@pytest.fixture(scope="module")
def run(dataset, work):
    held_out = fedcli.partition(dataset, by=["hospital"], hold_out="south", val=0.4, work=work)
    return fedcli.train("fedavg", held_out, rounds=1, work=work)


def test_the_prior_of_two_images_is_the_most_likely_one_by_hand():
    # log(.2 + .6 p) + log(.7 - .4 p) is largest where .6 (.7 - .4 p) = .4 (.2 + .6 p): p = .34 / .48
    chances = np.array([[0.8, 0.2], [0.3, 0.7]])
    prior = adaptation.new_prior(chances, np.array([0.5, 0.5]))
    expected = pytest.approx([0.34 / 0.48, 1 - 0.34 / 0.48], abs=1e-6)
    assert prior == expected


def test_under_the_prior_of_validation_nothing_changes(answers):
    calibration = adaptation.Calibration.of(answers)
    logits, prior = calibration.carried(answers.logits)
    assert prior == pytest.approx(calibration.prior, abs=1e-9)
    expected = pytest.approx(calibration.slope * answers.logits + calibration.bias)
    assert logits == expected
    result = (calibration.slope, *calibration.bias - calibration.bias[0])
    expected = pytest.approx((1, 0, 0, 0), abs=0.15)
    assert result == expected  # it was calibrated


def test_a_prior_that_changed_is_found_and_a_class_without_validation_image_stays_possible(answers):
    shuffled = np.random.default_rng(1).permutation(np.flatnonzero(answers.y != 0))
    fewer = np.concatenate([shuffled, np.flatnonzero(answers.y == 0)[:200]])
    _, prior = adaptation.Calibration.of(answers).carried(answers.logits[fewer])
    expected = pytest.approx(np.bincount(answers.y[fewer]) / len(fewer), abs=0.04)
    assert prior == expected
    two = answers.y < 2
    logits = answers.logits[two]
    result = adaptation.Calibration.of(seen(logits, answers.y[two])).prior[2]
    assert result > 0


def test_very_large_logits_rule_no_class_out_and_leave_all_finite(answers):
    sure = answers.logits[:40] + np.array([1e6, 0, 0])
    calibration = adaptation.Calibration.of(seen(sure, np.zeros(40, int)))
    assert calibration.prior.min() > 0
    for table in calibration.carried(sure):
        assert np.isfinite(table).all()


def test_calibrated_logits_have_temperature_1_and_larger_ones_as_much_more(answers):
    expected = pytest.approx(1, abs=0.05)
    assert temperature(answers) == expected
    logits = 4 * answers.logits
    chosen = replace(answers, logits=logits)
    result = temperature(chosen)
    expected = pytest.approx(4 * temperature(answers), rel=1e-5)
    assert result == expected


def test_statistics_are_those_of_the_images_so_that_gain_and_offset_of_a_scanner_go():
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 100, (20, 3, 8, 8), np.uint8))
    y = torch.zeros(20, dtype=torch.int64)

    def shard(pixels):
        ids = np.arange(20).astype(str)
        rows = torch.arange(20)
        return Shard(pixels, rows, y, ids, {}, 2, 3)

    net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Dropout(), nn.Linear(192, 2))
    answers = []
    for pixels in (images, 2 * images + 30):
        adaptation.statistics_of(net, shard(pixels), Local())
        x = torch.cat([batch.x for batch in shard(pixels).in_order()])
        expected = pytest.approx(x.mean((0, 2, 3)).tolist(), abs=1e-5)
        assert net[0].running_mean.tolist() == expected
        expected = pytest.approx(x.transpose(0, 1).flatten(1).var(1).tolist(), rel=1e-4)
        assert net[0].running_var.tolist() == expected
        assert not net[0].training
        assert net[0].momentum == 0.1
        answers.append(net(x).detach().numpy())
    expected = pytest.approx(answers[1], abs=1e-3)
    assert answers[0] == expected


def test_each_stands_beside_none_with_an_interval_for_all_and_by_group(run, dataset, tmp_path):
    adapt = ["bn", "prior", "temperature"]
    scored = fedcli.evaluate(run, on=dataset, adapt=adapt)
    adapted = RunScores.read(scored.path).adapted
    lines = {
        (score.adaptation, score.attribute, score.group, score.metric): score
        for score in adapted.scores
    }
    plain, cooler = (
        lines[name, "hospital", "south", "accuracy"] for name in ("none", "temperature")
    )
    assert plain.difference is None
    result = (cooler.difference, cooler.low, cooler.high)
    assert result == (0, 0, 0)
    bn = lines["bn", "", "", "balanced_accuracy"]
    assert bn.low <= bn.difference <= bn.high
    expected = pytest.approx(lines["none", "", "", "balanced_accuracy"].value)
    assert bn.value - bn.difference == expected
    assert ("prior", "hospital", "", "accuracy") in lines  # the gap
    result = sum(adapted.prior["clean"].values())
    assert result == pytest.approx(1)
    result = page.write(tmp_path / "page.html", [scored.path]).read_text(encoding="utf-8")
    assert "Adapted to the clean test" in result
    assert "adapted" not in fedcli.evaluate(run, on=dataset).manifest.body


def test_a_class_of_one_patient_has_no_interval_and_nor_has_the_gap_of_its_group():
    """All ill images of group m are of one patient."""
    y = np.array([0, 1] * 10 + [0] * 8 + [1] * 4)
    units = np.array([f"patient {min(image, 28)}" for image in range(32)])
    sex = (np.repeat([0, 1], [20, 12]), ["f", "m"])
    images = ScoredImages(y, ["well", "ill"], {"sex": sex}, units)
    draw = np.random.default_rng(0)
    tables = []
    for logits in draw.normal(size=(2, 32, 2)):
        tables.append({name: adaptation._scored([logits], images, name) for name in ("", "sex")})
    before, after = tables
    lines = list(adaptation._lines("bn", "clean", after, before, images))
    without = {(line.attribute, line.group, line.metric) for line in lines if line.low is None}
    needing = ("balanced_accuracy", "auc_ovo_macro")
    expected = {("sex", group, metric) for group in ("m", "") for metric in needing}
    assert without == expected
    assert len(lines) == 4 * 4  # of all images, of two groups and of the gap


def test_every_part_of_a_wide_table_names_the_adaptation_and_what_changed_stands_below(
    capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "64")
    lows = {"balanced_accuracy": 0.05, "auc_ovo_macro": -0.1, "f1_macro": 0.0}
    rows = [
        (group, adaptation)
        for group in ("northern-coast", "southern-coast")
        for adaptation in ("none", "bn")
    ]
    lines = [
        AdaptedScore(
            adapted_by,
            "clean",
            "site",
            group,
            name,
            30,
            0.6,
            *((0.1, low, 0.2) if adapted_by == "bn" else [None] * 3),
        )
        for group, adapted_by in rows
        for name, low in lows.items()
    ]
    adapted = Adaptations(None, {}, lines)
    scores = SimpleNamespace(adapted=adapted, name="M", versions={}, members=lambda attribute: {})
    (table,) = single_runs.adapted([("", scores)])
    writers.show(table)
    parts = capsys.readouterr().out.split("\n\n")
    words = [re.split(r"\s+", part) for part in parts[:2]]
    assert len(parts) == 3, parts
    for part in words:
        for group, adapted_by in rows:
            assert {f"{group},", adapted_by} <= {*part}, parts
    changed = "; ".join(
        f"{group}, bn: higher balanced accuracy" for group, adapted_by in rows if adapted_by == "bn"
    )
    assert table.legend.startswith(f"Changes whose interval excludes 0: {changed}. ")
    scores.adapted = Adaptations(None, {}, [replace(line, low=line.low and -0.1) for line in lines])
    (table,) = single_runs.adapted([("", scores)])
    assert table.legend.startswith("The interval of every change includes 0. ")


def test_labels_of_the_images_choose_nothing(run):
    opened = open_run(run.path)
    images = _images(opened, [])
    by_labels, by_zeros = (
        adaptation.adapted(opened, replace(images, y=y), ["prior", "temperature"])
        for y in (images.y, images.y * 0)
    )
    assert (by_labels.prior, by_labels.temperature) == (by_zeros.prior, by_zeros.temperature)


def test_what_a_run_cannot_have_is_refused(dataset, work):
    whole = fedcli.partition(dataset, by=["hospital"], work=work)
    plain = fedcli.train("fedavg", whole, model="cnn-gn", rounds=1, work=work)
    with pytest.raises(UsageError, match=r"the network cnn-gn of .* has no batch norm"):
        fedcli.evaluate(plain, adapt=["bn"])
    with pytest.raises(
        FedcliError, match="--adapt prior is fitted to the clients' validation images"
    ):
        fedcli.evaluate(plain, adapt=["prior"])
    with pytest.raises(UsageError, match="--adapt 'bm' is unknown"):
        fedcli.evaluate(plain, adapt=["bm"])


def test_a_class_without_a_validation_image_has_the_bias_of_its_prior_by_hand():
    """Four images of one class whose logits say nothing: -log p + b^2 / 2 each is least where b = 4 (1 - p)."""
    logits = np.zeros((4, 2))
    calibration = adaptation.Calibration.of(seen(logits, np.zeros(4, int)))
    logits = calibration.bias[None]
    absent = probabilities(logits)[0, 1]
    expected = pytest.approx([4 * absent, -4 * absent], abs=1e-4)
    assert calibration.bias == expected
    expected = pytest.approx(0.7408, abs=1e-3)
    assert calibration.bias[0] == expected


def test_a_gap_that_a_small_group_decides_is_marked_beside_the_group():
    lines = [
        AdaptedScore("none", "clean", "site", group, "auc_ovo_macro", 30, value, None, None, None)
        for group, value in (("north", 0.6), ("middle", 0.7), ("south", 0.8), ("", 0.2))
    ]

    def names(small):
        members = {small: SimpleNamespace(small="2 patients")}
        adapted = Adaptations(None, {}, lines)
        scores = SimpleNamespace(adapted=adapted, name="M", versions={}, members=lambda _: members)
        (table,) = single_runs.adapted([("", scores)])
        return [row[0].text for row in table.rows]

    assert names("south") == ["north, none", "middle, none", "south†, none", "gap†, none"]
    assert names("middle") == ["north, none", "middle†, none", "south, none", "gap, none"]
